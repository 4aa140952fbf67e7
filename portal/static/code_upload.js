// Code that is sent from the request page: with progress, and of a folder only what the project lacks. Without this
// script the form itself carries chosen files or an archive.
import { inPageZone } from "./live_marker.js";
import { swapParts } from "./parts.js";

const field = document.querySelector("[data-code]");
if (field) offer(field, field.closest("form"));

// What the form has beside files: these are sent once, and not with each preview.
export function fieldsOf(form) {
  const fields = new FormData(form);
  fields.delete("code_files");
  return fields;
}

function offer({ dataset }, form) {
  const [files, folder, bar] = ["code-files", "code-folder", "code-progress"].map((id) => document.getElementById(id));
  let latest = 0;
  for (const [id, input] of [["choose-code-files", files], ["choose-code-folder", folder]]) {
    const button = document.getElementById(id);
    button.hidden = false;
    button.addEventListener("click", () => input.click());
    input.addEventListener("change", () => take(input));
  }
  files.hidden = true;
  // The list is that of the project, and what stands below it that of the list.
  form.addEventListener("input", async ({ target, detail }) => {
    if (!["code", "project"].includes(target.name) || detail === "sent") return;
    const number = ++latest;
    bar.hidden = true;
    const html = await send(() => {}).catch(() => "");
    if (number === latest) swapParts(html);
  });

  async function take(input) {
    const number = ++latest;
    const chosen = [...input.files]
      .map((file) => ({ file, path: file.webkitRelativePath || file.name }))
      .filter(({ path }) => !isIgnored(path, dataset.ignored.split(" ")));
    const total = chosen.reduce((sum, { file }) => sum + file.size, 0);
    if (chosen.length > dataset.mostFiles || total > dataset.mostBytes) {
      input.value = "";
      return say(dataset.tooLarge);
    }
    bar.value = 0;
    bar.hidden = false;
    try {
      const isArchive = input === files && chosen.length === 1 && /\.(zip|tar\.gz|tgz|tar)$/i.test(chosen[0].path);
      const html = await (isArchive ? send((body) => body.append("code_files", chosen[0].file)) : sendFolder(chosen));
      if (number !== latest) return;
      swapParts(html);
      // A change of the form, unless it was refused.
      if (!document.getElementById("code-error")) form.elements.code.dispatchEvent(new CustomEvent("input", { bubbles: true, detail: "sent" }));
    } catch {
      if (number === latest) say(dataset.failed);
    } finally {
      if (number === latest) {
        bar.hidden = true;
        input.value = "";
      }
    }
  }

  // First the list: the answer names what the project lacks.
  async function sendFolder(chosen) {
    const listed = [];
    for (const { file, path } of chosen) listed.push([path, file.size, await sha256(file)]);
    const manifest = new Blob([JSON.stringify(listed)], { type: "application/json" });
    const call = (isSent) => send((body) => {
      body.append("code_manifest", manifest, "files.json");
      chosen.forEach(({ file, path }, number) => { if (isSent(path)) body.append("code_folder", file, String(number)); });
    });
    // Without TLS a page cannot hash: then all is sent.
    if (!globalThis.crypto?.subtle) return call(() => true);
    const html = await call(() => false);
    const missing = new Set(missingIn(html));
    return missing.size ? call((path) => missing.has(path)) : html;
  }

  function send(fill) {
    const body = fieldsOf(form);
    fill(body);
    return new Promise((resolve, reject) => {
      const call = new XMLHttpRequest();
      call.open("POST", inPageZone(`${form.dataset.preview}?of=code`));
      call.upload.addEventListener("progress", ({ loaded, total }) => { bar.value = total ? (100 * loaded) / total : 0; });
      const isAnswer = () => call.status === 200 && call.responseText.includes('data-part="code-said"');
      call.addEventListener("load", () => (isAnswer() ? resolve(call.responseText) : reject(new Error("refused"))));
      call.addEventListener("error", () => reject(new Error("away")));
      call.send(body);
    });
  }

  function say(sentence) {
    const error = document.createElement("p");
    error.className = "error";
    error.setAttribute("role", "alert");
    error.textContent = sentence;
    document.querySelector('[data-part="code-said"]').replaceChildren(error);
  }
}

async function sha256(file) {
  if (!globalThis.crypto?.subtle) return "";
  const digest = await crypto.subtle.digest("SHA-256", await file.arrayBuffer());
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function missingIn(html) {
  const said = new DOMParser().parseFromString(html, "text/html").querySelector('[data-part="code-said"]');
  return JSON.parse(said?.dataset.missing ?? "[]");
}

// As the server leaves them out, too: ".git/" is a folder, "*.pyc" the end of a name.
function isIgnored(path, patterns) {
  const parts = path.split("/");
  const name = parts.at(-1);
  return patterns.some((pattern) => {
    if (pattern.endsWith("/")) return parts.slice(0, -1).includes(pattern.slice(0, -1));
    return pattern.startsWith("*") ? name.endsWith(pattern.slice(1)) : name === pattern;
  });
}
