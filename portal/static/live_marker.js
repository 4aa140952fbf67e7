// The words beside a page's title: "Live 14:31:45", or since when nothing was heard. The page itself says as of when
// it was made. All on the clock of the page, which the server has chosen.
const staleAfter = 15000;
const { zone } = document.documentElement.dataset;
const hours = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZone: zone };
const clock = new Intl.DateTimeFormat("en-GB", hours);
const day = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeZone: zone });

export function liveMarker(live) {
  const marker = live.closest(".live");
  const [word, time] = [marker.firstElementChild, live.firstElementChild];
  let heardAt = Date.now();
  function show(state) {
    const text = marker.dataset[state === "on" ? "liveWord" : "staleWord"];
    // Unchanged words are not said again by a screen reader.
    if (word.textContent !== text) word.textContent = text;
    marker.classList.toggle("on", state === "on");
    marker.classList.toggle("stale", state !== "on");
  }
  function heard() {
    heardAt = Date.now();
    const now = new Date(heardAt);
    time.dateTime = now.toISOString();
    time.title = `${day.format(now)} ${clock.format(now)} ${zone}`;
    time.textContent = clock.format(now);
    show("on");
  }
  const check = () => { if (Date.now() - heardAt > staleAfter) show("stale"); };
  const watch = setInterval(check, 1000);
  document.addEventListener("visibilitychange", check);
  return { heard, remove: () => { clearInterval(watch); document.removeEventListener("visibilitychange", check); marker.remove(); } };
}

// What belongs to this page is written in its zone, whatever the account's has become since.
export function inPageZone(address) {
  const url = new URL(address, location.href);
  url.searchParams.set("zone", zone);
  return url;
}
