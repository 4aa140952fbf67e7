// The live parts of a page: fragments that the server rendered and escaped, swapped in place by name.
import "./log.js";

const parts = (html) => new DOMParser().parseFromString(html, "text/html").querySelectorAll("[data-part]");

function swapParts(html) {
  for (const fresh of parts(html)) {
    const old = document.querySelector(`[data-part="${fresh.dataset.part}"]`);
    // A drawing that someone walks through by keyboard waits until they have left it.
    const isInUse = old?.hasAttribute("data-calm") && old.contains(document.activeElement);
    if (old && !isInUse && old.innerHTML !== fresh.innerHTML) swap(old, document.importNode(fresh, true));
  }
}

// A log that stood at its end stays at its end; one that was scrolled up stays where it was.
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

// A job's page, until the job has ended, and the cluster's: one event stream. Its clock turns amber when it is stale.
const streamed = document.querySelector("[data-stream]");
if (streamed) {
  const live = document.querySelector("[data-live]");
  const stream = new EventSource(streamed.dataset.stream);
  let heardAt = Date.now();
  const heard = () => {
    heardAt = Date.now();
    live.textContent = new Date().toLocaleTimeString("en-GB");
  };
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
    clearInterval(watch);
    live.closest(".live").remove();
  });
  const watch = setInterval(() => live.closest(".live").classList.toggle("stale", Date.now() - heardAt > 25000), 1000);
}

// The request page asks for its answer while one types; without this script the form still posts.
const form = document.querySelector("form[data-check]");
if (form) {
  const latest = {};
  // Of several answers to the same question only the last one counts.
  async function ask(what, address, options) {
    const mine = latest[what] = (latest[what] ?? 0) + 1;
    const answer = await fetch(address, options);
    const html = await answer.text();
    if (answer.ok && mine === latest[what]) swapParts(html);
  }
  const project = () => form.elements.project.value;
  const pauses = {};
  const soon = (what, then) => {
    clearTimeout(pauses[what]);
    pauses[what] = setTimeout(then, 250);
  };
  let answeredAt = Date.now();
  const check = (what, of) => ask(what, form.dataset.check + of, { method: "POST", body: new FormData(form) });
  const isLarge = "ask" in form.dataset;
  const answer = async () => {
    answeredAt = Date.now();
    if (!isLarge) return check("answer", "");
    // The planner takes a while over a large cluster: the cards come after the answer.
    await check("answer", "?of=answer");
    soon("cards", () => check("cards", "?of=cards"));
  };
  form.addEventListener("input", ({ target }) => {
    if (target.form === form) soon("answer", answer);
  });
  // Of a large cluster the page comes before its answer.
  if (isLarge) answer();
  // What is free has changed, and with it when this could start; a page that nobody sees can wait.
  document.addEventListener("tessera:page", () => {
    if (!document.hidden && Date.now() - answeredAt > 30000) soon("answer", answer);
  });
  // Templates are found while one types, and begin in the project that is chosen by then.
  const find = document.querySelector("[data-find]");
  find?.addEventListener("input", () => {
    const query = new URLSearchParams({ find: find.value, project: project() });
    soon("find", () => ask("find", `${find.dataset.find}?${query}`));
  });
  form.addEventListener("click", ({ target }) => {
    const link = target.closest("a[data-begin]");
    if (!link) return;
    const address = new URL(link.href);
    address.searchParams.set("project", project());
    link.href = address.href;
  });
}

// A form keeps its key with its place in the history: after Back it is the form that was sent, and sent again it is
// the job that is there.
const key = form?.elements.key;
if (key && history.state?.key) key.value = history.state.key;
else if (key) history.replaceState({ key: key.value }, "");

for (const log of document.querySelectorAll("[data-keep-scroll]")) log.scrollTop = log.scrollHeight;
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  const from = button && document.querySelector(button.dataset.copy);
  if (from) navigator.clipboard.writeText(from.value ?? from.textContent);
});

// Choosing all rows of a page; without this script each is ticked by itself.
const all = document.querySelector("[data-choose-all]");
if (all) {
  all.hidden = false;
  all.addEventListener("change", (event) => {
    for (const box of all.closest("table").querySelectorAll("input[name=job]")) box.checked = event.target.checked;
  });
}
