// What is live on a page.
import { inPageZone, liveMarker } from "./live_marker.js";
import "./log.js";
import { swapParts } from "./parts.js";
import "./request.js";

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

// A form keeps its idempotency key in the history entry: after Back, posting it again gives the same job.
const key = document.querySelector("form[data-preview]")?.elements.key;
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
