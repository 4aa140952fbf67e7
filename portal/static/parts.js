// Fragments of a page, rendered and escaped by the server, swapped in place by name.
const parts = (html) => new DOMParser().parseFromString(html, "text/html").querySelectorAll("[data-part]");
const present = (name) => document.querySelector(`[data-part="${name}"]`);
// The latest of each part that could not be swapped while it had the keyboard focus.
const late = new Map();

export function swapParts(html) {
  for (const fresh of parts(html)) {
    if (fresh.dataset.tabTitle) document.title = fresh.dataset.tabTitle;
    late.delete(fresh.dataset.part);
    const old = present(fresh.dataset.part);
    if (!old || old.innerHTML === fresh.innerHTML) continue;
    if (isInUse(old)) late.set(fresh.dataset.part, fresh);
    else swap(old, document.importNode(fresh, true));
  }
}

// A calm part waits while it has the focus; so does any part in which somebody types.
function isInUse(part) {
  const { activeElement } = document;
  return part.contains(activeElement) && (part.hasAttribute("data-calm") || activeElement.matches("input, select, textarea"));
}

// Not at once: the focus may have left for a button of the same part, which must still be there when it is pressed.
document.addEventListener("focusout", () => setTimeout(() => {
  for (const [name, fresh] of late) {
    const old = present(name);
    if (old && isInUse(old)) continue;
    late.delete(name);
    if (old) swap(old, document.importNode(fresh, true));
  }
}, 500));

// A box scrolled to its end stays at its end; otherwise it keeps its place. What is unfolded or typed stays so.
function swap(old, fresh) {
  for (const open of old.querySelectorAll("details[id][open]")) {
    const again = fresh.querySelector(`#${CSS.escape(open.id)}`);
    if (again) again.open = true;
  }
  for (const typed of old.querySelectorAll("input[id], textarea[id]")) {
    const again = typed.value !== typed.defaultValue && fresh.querySelector(`#${CSS.escape(typed.id)}`);
    if (again) again.value = typed.value;
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
