// A log that is followed: lines that the server rendered and escaped, put at its end as they come.
const MOST_LINES = 5000;
const NEAR = 24;
const box = document.querySelector("[data-log]");

// Wrap and times: without this script the same links ask the server.
for (const link of document.querySelectorAll("[data-log-toggle]")) {
  const log = document.querySelector(".log.full");
  const tell = () => link.setAttribute("aria-pressed", String(!log.classList.contains(link.dataset.logToggle)));
  link.setAttribute("role", "button");
  link.addEventListener("click", (event) => {
    event.preventDefault();
    log.classList.toggle(link.dataset.logToggle);
    tell();
    const now = new URL(link.href);
    const here = new URL(location.href);
    const name = link.dataset.logToggle === "unwrapped" ? "wrap" : "times";
    if (log.classList.contains(link.dataset.logToggle)) here.searchParams.set(name, "0");
    else here.searchParams.delete(name);
    history.replaceState(null, "", here.pathname + here.search);
    link.href = now.pathname + now.search;
  });
  link.addEventListener("keydown", (event) => { if (event.key === " ") { event.preventDefault(); link.click(); } });
  tell();
}

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
