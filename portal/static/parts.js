// Fragments of a page, rendered and escaped by the server, swapped in place by name.
const parts = (html) => new DOMParser().parseFromString(html, "text/html").querySelectorAll("[data-part]");

export function swapParts(html) {
  for (const fresh of parts(html)) {
    if (fresh.dataset.tabTitle) document.title = fresh.dataset.tabTitle;
    const old = document.querySelector(`[data-part="${fresh.dataset.part}"]`);
    // A part that has the keyboard focus is not swapped until the focus has left it.
    const isInUse = old?.hasAttribute("data-calm") && old.contains(document.activeElement);
    if (old && !isInUse && old.innerHTML !== fresh.innerHTML) swap(old, document.importNode(fresh, true));
  }
}

// A box scrolled to its end stays at its end; otherwise it keeps its place. What is unfolded stays so.
function swap(old, fresh) {
  for (const open of old.querySelectorAll("details[id][open]")) {
    const again = fresh.querySelector(`#${CSS.escape(open.id)}`);
    if (again) again.open = true;
  }
  const before = old.querySelector("[data-keep-scroll]");
  const follows = !before || before.scrollHeight - before.scrollTop - before.clientHeight < 24;
  const top = before?.scrollTop ?? 0;
  const sideways = [...old.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
  old.replaceWith(fresh);
  fresh.querySelectorAll(".scroll").forEach((box, i) => { box.scrollLeft = sideways[i] ?? 0; });
  const after = fresh.querySelector("[data-keep-scroll]");
  if (after) after.scrollTop = follows ? after.scrollHeight : top;
}
