// A live log: lines rendered and escaped by the server are appended as they arrive.
const MOST_LINES = 5000;
const NEAR = 24;
const box = document.querySelector("[data-log]");

// Wrap and times: without this script the same links load the page again. The address holds the present options, and
// every link and search in the log's card keeps them.
const OPTIONS = { wrap: "unwrapped", times: "untimed" };
const log = document.querySelector(".log.full");
const card = log?.closest(".card");

function withOptions(address) {
  const url = new URL(address, location.href);
  for (const [name, off] of Object.entries(OPTIONS)) {
    if (log.classList.contains(off)) url.searchParams.set(name, "0");
    else url.searchParams.delete(name);
  }
  return url.pathname + url.search + url.hash;
}

for (const link of document.querySelectorAll("[data-log-toggle]")) {
  const update = () => link.setAttribute("aria-pressed", String(!log.classList.contains(link.dataset.logToggle)));
  link.setAttribute("role", "button");
  link.addEventListener("click", (event) => {
    event.preventDefault();
    log.classList.toggle(link.dataset.logToggle);
    update();
    history.replaceState(null, "", withOptions(location.href));
  });
  link.addEventListener("keydown", (event) => { if (event.key === " ") { event.preventDefault(); link.click(); } });
  update();
}

card?.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]:not([data-log-toggle], [download])");
  if (link) link.href = withOptions(link.href);
});
card?.querySelector("form")?.addEventListener("formdata", (event) => {
  for (const [name, off] of Object.entries(OPTIONS)) {
    if (log.classList.contains(off)) event.formData.set(name, "0");
    else event.formData.delete(name);
  }
});

// Ranks side by side: each panel takes the lines of its own rank, and follows while it is scrolled to its end. The
// panels are looked up anew, since another attempt brings others.
const MOST_PANEL_LINES = 500;
const panels = () => document.querySelectorAll("[data-log-rank]");
const rankOf = (line) => line.dataset.rank ?? line.id.slice(1).split("-")[0];
const atEnd = (panel) => panel.scrollHeight - panel.scrollTop - panel.clientHeight < NEAR;

document.addEventListener("tessera:log", (event) => {
  if (!panels().length) return;
  const update = new DOMParser().parseFromString(event.detail, "text/html").querySelector("ol");
  for (const panel of update ? panels() : []) {
    const list = panel.querySelector("ol");
    const lines = [...update.children].filter((line) => rankOf(line) === panel.dataset.logRank);
    const follows = atEnd(panel);
    if (update.hasAttribute("data-restart")) list.replaceChildren();
    if (!lines.length) continue;
    for (const line of list.querySelectorAll("[data-open]")) line.remove();
    list.append(...lines.map((line) => document.importNode(line, true)));
    while (list.childElementCount > MOST_PANEL_LINES) list.firstElementChild.remove();
    if (follows) panel.scrollTop = panel.scrollHeight;
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

  // A log that is scrolled up keeps its place until it is scrolled back to its end.
  box.addEventListener("scroll", () => setFollows(isAtEnd()));
  button?.addEventListener("click", () => { toEnd(); setFollows(true); box.focus(); });

  document.addEventListener("tessera:log", (event) => {
    const update = new DOMParser().parseFromString(event.detail, "text/html").querySelector("ol");
    if (!update) return;
    if (update.hasAttribute("data-restart")) list.replaceChildren();
    for (const line of list.querySelectorAll("[data-open]")) line.remove();
    list.append(...[...update.children].map((line) => document.importNode(line, true)));
    while (list.childElementCount > MOST_LINES) list.firstElementChild.remove();
    if (list.childElementCount) document.querySelector("[data-log-empty]")?.remove();
    if (follows) toEnd();
  });
  toEnd();
}
