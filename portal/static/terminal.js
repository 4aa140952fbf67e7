// The terminal of a job's page: xterm.js (portal/static/vendor/README.md) on a stream of terminal_stream.js.
import { TerminalStream } from "./terminal_stream.js";
import { FitAddon } from "./vendor/xterm/addon-fit.js";
import { Terminal } from "./vendor/xterm/xterm.js";

const LIGHT = {
  black: "#1b1a18", red: "#b0271d", green: "#156a45", yellow: "#835000", blue: "#2f46c6", magenta: "#6a3fa3", cyan: "#0b647d", white: "#55524b",
  brightBlack: "#6b6860", brightRed: "#b0271d", brightGreen: "#156a45", brightYellow: "#835000", brightBlue: "#2f46c6",
  brightMagenta: "#6a3fa3", brightCyan: "#0b647d", brightWhite: "#1b1a18",
};
const DARK = {
  black: "#2a2c33", red: "#ff938a", green: "#62cf98", yellow: "#ecb453", blue: "#8fa0ff", magenta: "#c7a6f5", cyan: "#62c6e2", white: "#b4b5bc",
  brightBlack: "#9496a0", brightRed: "#ff938a", brightGreen: "#62cf98", brightYellow: "#ecb453", brightBlue: "#a9b6ff",
  brightMagenta: "#c7a6f5", brightCyan: "#62c6e2", brightWhite: "#edecea",
};

// The page's policy allows no style elements, not even empty ones. xterm writes its styles as texts of some, which become sheets of
// a script instead.
function withoutStyleElements() {
  const create = Document.prototype.createElement;
  document.createElement = (tag, ...rest) => {
    if (tag !== "style") return create.call(document, tag, ...rest);
    const element = create.call(document, "template"), sheet = new CSSStyleSheet();
    document.adoptedStyleSheets.push(sheet);
    Object.defineProperty(element, "textContent", { get: () => "", set: (text) => sheet.replaceSync(text) });
    return element;
  };
}

// What a program prints never types an answer and never reaches the clipboard: no reports of the terminal's state, kind, colours,
// size or cursor, no OSC 52.
function withoutAnswers(parser) {
  const swallow = () => true;
  const reports = [
    { final: "c" }, { prefix: ">", final: "c" }, { prefix: "=", final: "c" }, { final: "n" }, { prefix: "?", final: "n" },
    { intermediates: "$", final: "p" }, { prefix: "?", intermediates: "$", final: "p" }, { prefix: ">", final: "q" }, { final: "t" },
    { final: "x" }, { prefix: "?", final: "u" }, { prefix: "?", final: "S" },
  ];
  for (const each of reports) parser.registerCsiHandler(each, swallow);
  for (const each of [{ intermediates: "$", final: "q" }, { intermediates: "+", final: "q" }]) parser.registerDcsHandler(each, swallow);
  parser.registerEscHandler({ final: "Z" }, swallow);
  for (const code of [4, 5, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 21]) parser.registerOscHandler(code, (text) => text.includes("?"));
  for (const code of [50, 52]) parser.registerOscHandler(code, swallow);
}

function themeOf(element) {
  const style = getComputedStyle(element), isDark = getComputedStyle(document.documentElement).colorScheme === "dark" ||
    (getComputedStyle(document.documentElement).colorScheme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  const ink = style.color, ground = style.backgroundColor;
  return { ...(isDark ? DARK : LIGHT), background: ground, foreground: ink, cursor: ink, cursorAccent: ground, selectionBackground: isDark ? "#4d61e0" : "#cdd5f8" };
}

function begin(root) {
  const screen = root.querySelector("[data-terminal-screen]"), state = root.querySelector("[data-terminal-state]");
  const again = root.querySelector("[data-terminal-again]"), end = root.querySelector("[data-terminal-end]");
  const sentences = JSON.parse(root.dataset.sentences), key = `terminal.${root.dataset.terminalKey}`;
  Terminal.strings.promptLabel = sentences.input;
  withoutStyleElements();
  const terminal = new Terminal({
    fontFamily: getComputedStyle(screen).fontFamily, fontSize: 13, cursorBlink: false,
    scrollback: 5_000, minimumContrastRatio: 4.5, theme: themeOf(screen),
    // A link that a program prints may show another address than it has.
    linkHandler: { activate() {} },
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  withoutAnswers(terminal.parser);
  terminal.open(screen);
  fit.fit();
  terminal.attachCustomKeyEventHandler((event) => {
    if (event.key !== "F6" || !event.shiftKey) return true;
    if (event.type === "keydown") (end.hidden ? again : end).focus();
    return false;
  });

  const store = {
    load: () => sessionStorage.getItem(key),
    save: (name) => sessionStorage.setItem(key, name),
    forget: () => sessionStorage.removeItem(key),
  };
  const view = {
    size: () => [terminal.cols, terminal.rows],
    clear: () => terminal.reset(),
    show: (bytes, done) => terminal.write(bytes, done),
    state(code, exitCode = 0) {
      const isOpen = code === "open";
      state.textContent = (sentences[code] ?? sentences.failed) + (code === "exited" && exitCode ? ` (${exitCode})` : "");
      root.dataset.terminalIs = code;
      end.hidden = !isOpen;
      again.hidden = isOpen || code === "cut" || code === "connecting";
      terminal.options.disableStdin = !isOpen;
      if (isOpen) terminal.focus();
    },
  };
  const url = new URL(root.dataset.terminal, location.href);
  url.protocol = url.protocol.replace("http", "ws");
  let stream = null;
  const open = () => {
    view.state("connecting");
    stream = new TerminalStream(url, view, store);
  };
  // A page that is loaded again goes on with its terminal. Looking at one opens none.
  if (store.load() === null) view.state("ready");
  else open();

  const keys = new TextEncoder();
  terminal.onData((text) => stream?.type(keys.encode(text)));
  terminal.onBinary((text) => stream?.type(Uint8Array.from(text, (one) => one.charCodeAt(0))));
  terminal.onResize(({ cols, rows }) => stream?.resize(cols, rows));
  new ResizeObserver(() => fit.fit()).observe(screen);
  end.addEventListener("click", () => stream.hangUp());
  again.addEventListener("click", () => {
    terminal.reset();
    store.forget();
    open();
  });
  const repaint = () => { terminal.options.theme = themeOf(screen); };
  new MutationObserver(repaint).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
}

const root = document.querySelector("[data-terminal]");
if (root) begin(root);
