// Passkeys: a form asks the browser for one and posts what it answers. Forms stay hidden, or say
// so in <noscript>, where this does not run. Options come with the page or from an address.
const bytes = (text) =>
  Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
const text = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
const withIds = (list) => list?.map((entry) => ({ ...entry, id: bytes(entry.id) }));

async function options(form) {
  const written = form.dataset.options;
  if (written) return JSON.parse(written).publicKey;
  const answer = await fetch(form.dataset.optionsFrom, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(`${answer.status}`);
  return (await answer.json()).request_options.publicKey;
}

function toCreate(asked, alone) {
  const choice = { ...asked.authenticatorSelection };
  choice.residentKey = alone ? "required" : "discouraged";
  choice.requireResidentKey = alone;
  if (alone) choice.userVerification = "required";
  return {
    ...asked,
    challenge: bytes(asked.challenge),
    user: { ...asked.user, id: bytes(asked.user.id) },
    excludeCredentials: withIds(asked.excludeCredentials),
    authenticatorSelection: choice,
  };
}

function answered(credential) {
  const said = credential.response;
  const response = { clientDataJSON: text(said.clientDataJSON) };
  for (const name of ["attestationObject", "authenticatorData", "signature", "userHandle"])
    if (said[name]) response[name] = text(said[name]);
  if (said.getTransports) response.transports = said.getTransports();
  return {
    id: credential.id,
    rawId: text(credential.rawId),
    type: credential.type,
    response,
    clientExtensionResults: credential.getClientExtensionResults(),
  };
}

async function ask(form) {
  const asked = await options(form);
  if (form.dataset.passkey === "create") {
    const alone = form.elements.passwordless?.checked ?? false;
    return navigator.credentials.create({ publicKey: toCreate(asked, alone) });
  }
  const publicKey = { ...asked, challenge: bytes(asked.challenge), allowCredentials: withIds(asked.allowCredentials) };
  return navigator.credentials.get({ publicKey });
}

for (const form of window.PublicKeyCredential ? document.querySelectorAll("[data-passkey]") : []) {
  form.hidden = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const failed = form.querySelector("[role=alert][hidden], [role=alert][data-failed]");
    failed.hidden = true;
    try {
      form.elements.credential.value = JSON.stringify(answered(await ask(form)));
      form.submit();
    } catch {
      failed.dataset.failed = "";
      failed.hidden = false;
    }
  });
}
