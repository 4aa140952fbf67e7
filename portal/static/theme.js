// Sets the theme before the first paint: ?theme=light|dark, then the saved choice, else the system's.
const asked = new URLSearchParams(location.search).get("theme") ?? localStorage.getItem("theme");
if (asked === "light" || asked === "dark") document.documentElement.dataset.theme = asked;

// The button in the bar turns the theme over and remembers the choice.
document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-theme-toggle]")) return;
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
});

// The Account page offers all three; "system" forgets the choice.
document.addEventListener("DOMContentLoaded", () => {
  const choice = document.querySelector("[data-theme-choice]");
  if (!choice) return;
  choice.hidden = false;
  const saved = localStorage.getItem("theme") ?? "system";
  for (const radio of choice.querySelectorAll("input")) radio.checked = radio.value === saved;
  choice.addEventListener("change", (event) => {
    const { value } = event.target;
    if (value === "system") {
      localStorage.removeItem("theme");
      delete document.documentElement.dataset.theme;
    } else {
      localStorage.setItem("theme", value);
      document.documentElement.dataset.theme = value;
    }
  });
});
