// A log that is followed: lines that the server rendered and escaped, put at its end as they come.
const MOST_LINES = 5000;
const NEAR = 24;
const box = document.querySelector("[data-log]");

// Wrap and times: without this script the same links ask the server. The address says how it looks now, and every
// link and search in the log's card takes that along.
const LOOKS = { wrap: "unwrapped", times: "untimed" };
const log = document.querySelector(".log.full");
const card = log?.closest(".card");

function withLook(address) {
  const there = new URL(address, location.href);
  for (const [name, off] of Object.entries(LOOKS)) {
    if (log.classList.contains(off)) there.searchParams.set(name, "0");
    else there.searchParams.delete(name);
  }
  return there.pathname + there.search + there.hash;
}

for (const link of document.querySelectorAll("[data-log-toggle]")) {
  const tell = () => link.setAttribute("aria-pressed", String(!log.classList.contains(link.dataset.logToggle)));
  link.setAttribute("role", "button");
  link.addEventListener("click", (event) => {
    event.preventDefault();
    log.classList.toggle(link.dataset.logToggle);
    tell();
    history.replaceState(null, "", withLook(location.href));
  });
  link.addEventListener("keydown", (event) => { if (event.key === " ") { event.preventDefault(); link.click(); } });
  tell();
}

card?.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]:not([data-log-toggle], [download])");
  if (link) link.href = withLook(link.href);
});
card?.querySelector("form")?.addEventListener("formdata", (event) => {
  for (const [name, off] of Object.entries(LOOKS)) {
    if (log.classList.contains(off)) event.formData.set(name, "0");
    else event.formData.delete(name);
  }
});

if (box) {
  const list = box.querySelector("ol");
  const button = document.querySelector("[data-log-follow]");
  let follows = true;

  const toEnd = () => { box.scrollTop = box.scrollHeight; };
  const isAtEnd = () => box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;

  function setFollows(next) {
    follows = next;
    if (button) button.hidden = follows || box.dataset.log !== "live";
  }

  // Somebody who scrolls up reads: the log stays where it is until they are back at its end.
  box.addEventListener("scroll", () => setFollows(isAtEnd()));
  button?.addEventListener("click", () => { toEnd(); setFollows(true); box.focus(); });

  document.addEventListener("tessera:log", (event) => {
    const news = new DOMParser().parseFromString(event.detail, "text/html").querySelector("ol");
    if (!news) return;
    if (news.hasAttribute("data-anew")) list.replaceChildren();
    for (const line of list.querySelectorAll("[data-open]")) line.remove();
    list.append(...[...news.children].map((line) => document.importNode(line, true)));
    while (list.childElementCount > MOST_LINES) list.firstElementChild.remove();
    if (list.childElementCount) document.querySelector("[data-log-empty]")?.remove();
    if (follows) toEnd();
  });
  toEnd();
}
