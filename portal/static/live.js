// The live parts of a page: fragments rendered and escaped by the server, swapped in place by name.
import { inPageZone, liveMarker } from "./live_marker.js";
import "./log.js";

const parts = (html) => new DOMParser().parseFromString(html, "text/html").querySelectorAll("[data-part]");

function swapParts(html) {
  for (const fresh of parts(html)) {
    if (fresh.dataset.tabTitle) document.title = fresh.dataset.tabTitle;
    const old = document.querySelector(`[data-part="${fresh.dataset.part}"]`);
    // A part that has the keyboard focus is not swapped until the focus has left it.
    const isInUse = old?.hasAttribute("data-calm") && old.contains(document.activeElement);
    if (old && !isInUse && old.innerHTML !== fresh.innerHTML) swap(old, document.importNode(fresh, true));
  }
}

// A box scrolled to its end stays at its end; otherwise it keeps its place.
function swap(old, fresh) {
  const before = old.querySelector("[data-keep-scroll]");
  const follows = !before || before.scrollHeight - before.scrollTop - before.clientHeight < 24;
  const top = before?.scrollTop ?? 0;
  const sideways = [...old.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
  old.replaceWith(fresh);
  fresh.querySelectorAll(".scroll").forEach((box, i) => { box.scrollLeft = sideways[i] ?? 0; });
  const after = fresh.querySelector("[data-keep-scroll]");
  if (after) after.scrollTop = follows ? after.scrollHeight : top;
}

// One event stream a page, until the server says "done". Its marker says since when it has heard nothing.
const followed = document.querySelector("[data-stream]");
const retryAfter = 30000;
if (followed) follow(liveMarker(document.querySelector("[data-live]")));

function follow(marker) {
  const stream = new EventSource(inPageZone(followed.dataset.stream));
  const { heard } = marker;
  stream.addEventListener("open", heard);
  stream.addEventListener("beat", heard);
  stream.addEventListener("page", (event) => {
    swapParts(event.data);
    document.dispatchEvent(new CustomEvent("tessera:page"));
    heard();
  });
  stream.addEventListener("log", (event) => {
    document.dispatchEvent(new CustomEvent("tessera:log", { detail: event.data }));
    heard();
  });
  stream.addEventListener("done", () => {
    stream.close();
    marker.remove();
  });
  // Refused for good: too many live pages of this user, or signed out. The browser does not try again.
  stream.addEventListener("error", () => {
    if (stream.readyState === EventSource.CLOSED) setTimeout(reread, retryAfter);
  });
  async function reread() {
    const response = await fetch(inPageZone(location.href)).catch(() => null);
    // Elsewhere: the sign-in page. What this page shows stays, and its marker says since when.
    if (response?.redirected) return;
    if (response?.ok) {
      swapParts(await response.text());
      heard();
    }
    follow(marker);
  }
}

// The request page updates its preview while the user types; without this script the form still posts.
const form = document.querySelector("form[data-preview]");
if (form) {
  const latest = {};
  // Of several responses of the same kind only the latest counts.
  async function load(kind, address, options) {
    const number = latest[kind] = (latest[kind] ?? 0) + 1;
    const response = await fetch(inPageZone(address), options);
    const html = await response.text();
    if (response.ok && number === latest[kind]) swapParts(html);
  }
  const project = () => form.elements.project.value;
  const timers = {};
  const debounce = (kind, then) => {
    clearTimeout(timers[kind]);
    timers[kind] = setTimeout(then, 250);
  };
  let previewedAt = Date.now();
  const post = (kind, query) => load(kind, form.dataset.preview + query, { method: "POST", body: new FormData(form) });
  const isLarge = "deferred" in form.dataset;
  const preview = async () => {
    previewedAt = Date.now();
    if (!isLarge) return post("preview", "");
    // On a large cluster each takes a while: the cards come after the panel.
    await post("preview", "?of=preview");
    debounce("cards", () => post("cards", "?of=cards"));
  };
  form.addEventListener("input", ({ target }) => {
    if (target.form === form) debounce("preview", preview);
  });
  // On a large cluster the page is rendered without its preview.
  if (isLarge) preview();
  // The free devices have changed, and with them the expected start; a hidden page can wait.
  document.addEventListener("tessera:page", () => {
    if (!document.hidden && Date.now() - previewedAt > 30000) debounce("preview", preview);
  });
  // Templates are searched while the user types, and open in the project chosen by then.
  const find = document.querySelector("[data-find]");
  find?.addEventListener("input", () => {
    const query = new URLSearchParams({ find: find.value, project: project() });
    debounce("find", () => load("find", `${find.dataset.find}?${query}`));
  });
  form.addEventListener("click", ({ target }) => {
    const link = target.closest("a[data-begin]");
    if (!link) return;
    const address = new URL(link.href);
    address.searchParams.set("project", project());
    link.href = address.href;
  });
}

// A form keeps its idempotency key in the history entry: after Back, posting it again gives the same job.
const key = form?.elements.key;
if (key && history.state?.key) key.value = history.state.key;
else if (key) history.replaceState({ key: key.value }, "");

for (const log of document.querySelectorAll("[data-keep-scroll]")) log.scrollTop = log.scrollHeight;
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  const from = button && document.querySelector(button.dataset.copy);
  if (from) navigator.clipboard.writeText(from.value ?? from.textContent);
});

// Selects all rows of a page; without this script each box is ticked by itself.
const all = document.querySelector("[data-choose-all]");
if (all) {
  all.hidden = false;
  all.addEventListener("change", (event) => {
    for (const box of all.closest("table").querySelectorAll("input[name=job]")) box.checked = event.target.checked;
  });
}
