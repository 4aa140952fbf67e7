// The command palette and the keys of every page. Without this script, Search in the bar is a link to a page.
const palette = document.querySelector("#palette");
const keys = document.querySelector("#keys");
const EDITABLE = "input, textarea, select, [contenteditable], [role=textbox], [role=combobox]";
const DEBOUNCE = 120;

// Single-letter shortcuts can be switched off (WCAG 2.1.4). The choice belongs to the browser, like the theme.
const isOn = () => localStorage.getItem("keys") !== "off";
function showChoice() {
  document.documentElement.dataset.letterKeys = isOn() ? "on" : "off";
  for (const part of document.querySelectorAll("[data-keys-choice]")) {
    part.hidden = false;
    const box = part.querySelector("input");
    if (box) box.checked = isOn();
  }
}
document.addEventListener("change", ({ target }) => {
  if (!target.closest("[data-keys-choice]")) return;
  if (target.checked) localStorage.removeItem("keys");
  else localStorage.setItem("keys", "off");
  showChoice();
});
showChoice();

// The choice of a project, unfolded in the bar: closed by Escape, by a click beside it, or once the focus leaves it.
const choice = document.querySelector("[data-switch]");
if (choice) {
  document.addEventListener("click", ({ target }) => { if (!choice.contains(target)) choice.open = false; });
  choice.addEventListener("focusout", ({ relatedTarget }) => {
    if (relatedTarget && !choice.contains(relatedTarget)) choice.open = false;
  });
  choice.addEventListener("keydown", ({ key }) => {
    if (key !== "Escape" || !choice.open) return;
    choice.open = false;
    choice.querySelector("summary").focus();
  });
}

// While an input method composes, keys are its own; Safari ends a composition with one that only says so by its code.
const isComposing = (event) => event.isComposing || event.keyCode === 229;

if (palette) {
  const input = palette.querySelector("[role=combobox]");
  const list = palette.querySelector("[role=listbox]");
  const status = palette.querySelector("[role=status]");
  let timer, latest = 0;

  const options = () => [...list.querySelectorAll("[role=option]")];
  const current = () => list.querySelector("[aria-selected=true]");

  function choose(option) {
    current()?.setAttribute("aria-selected", "false");
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    if (option) input.setAttribute("aria-activedescendant", option.id);
    else input.removeAttribute("aria-activedescendant");
  }

  async function load() {
    const number = ++latest;
    const address = `${list.dataset.options}?${new URLSearchParams({ q: input.value })}`;
    const response = await fetch(address).catch(() => null);
    // Signed out, or no network: Enter still leads to the page.
    if (number !== latest || !response?.ok || response.redirected) return;
    const found = new DOMParser().parseFromString(await response.text(), "text/html").body;
    const count = found.querySelector("[data-count]");
    if (number !== latest || !count) return;
    count.remove();
    status.textContent = count.textContent;
    list.replaceChildren(...found.childNodes);
    input.setAttribute("aria-expanded", String(options().length > 0));
    choose(options()[0]);
  }

  function open() {
    if (keys.open) keys.close();
    if (!palette.open) palette.showModal();
    input.select();
    load();
  }

  // What is shown belongs to the text before: until the new matches are here, Enter searches for the text.
  input.addEventListener("input", () => {
    choose(null);
    latest++;
    clearTimeout(timer);
    timer = setTimeout(load, DEBOUNCE);
  });
  input.addEventListener("keydown", (event) => {
    if (isComposing(event)) return;
    const all = options(), at = all.indexOf(current());
    const steps = { ArrowDown: at + 1, ArrowUp: at - 1 };
    if (event.key in steps && all.length) {
      event.preventDefault();
      choose(all[(steps[event.key] + all.length) % all.length]);
    } else if (event.key === "Enter" && current()) {
      event.preventDefault();
      current().click();
    }
  });

  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-palette]");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      open();
    }
    event.target.closest("[data-close]")?.closest("dialog").close();
    // A click beside the box closes it.
    if (event.target === palette || event.target === keys) event.target.close();
  });

  const letters = {
    "/": () => {
      const field = document.querySelector("[data-search-field]");
      if (field) field.select();
      else open();
    },
    n: () => { if (location.pathname !== keys.dataset.request) location.assign(keys.dataset.request); },
    "?": () => keys.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || isComposing(event) || event.altKey) return;
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k" && !event.shiftKey) {
      event.preventDefault();
      open();
      return;
    }
    if (event.ctrlKey || event.metaKey || !isOn() || !(event.key in letters)) return;
    if (event.target.closest(EDITABLE) || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    letters[event.key]();
  });
}
