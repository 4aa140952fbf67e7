// The request page updates its preview while the user types; without this script the form still posts.
import { fieldsOf } from "./code_upload.js";
import { inPageZone } from "./live_marker.js";
import { swapParts } from "./parts.js";

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
  const post = (kind, query) => load(kind, form.dataset.preview + query, { method: "POST", body: fieldsOf(form) });
  const isLarge = "deferred" in form.dataset;
  const preview = async () => {
    previewedAt = Date.now();
    if (!isLarge) return post("preview", "");
    // On a large cluster each takes a while: the cards come after the panel.
    await post("preview", "?of=preview");
    debounce("cards", () => post("cards", "?of=cards"));
  };
  form.addEventListener("input", ({ target, detail }) => {
    if (target.form !== form || target.type === "file") return;
    // What was wrong with the old value says nothing about the new one.
    target.removeAttribute("aria-invalid");
    document.getElementById(`${target.name}-error`)?.remove();
    if (detail !== "sent") target.closest(".field")?.querySelector("button[name=fill]")?.remove();
    markChoices(target);
    debounce("preview", preview);
  });
  // A button that fills in a field does so at once; without this script it posts the form.
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[name=fill]");
    if (!button) return;
    event.preventDefault();
    const [name, ...rest] = button.value.split("=");
    const field = form.elements[name];
    field.value = rest.join("=");
    if (!button.hasAttribute("aria-pressed")) field.focus();
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });
  function markChoices({ name, value }) {
    for (const button of document.querySelectorAll("button[name=fill][aria-pressed]"))
      if (button.value.startsWith(`${name}=`)) button.setAttribute("aria-pressed", button.value === `${name}=${value}`);
  }
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
