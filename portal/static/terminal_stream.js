// One terminal over WebSockets of the portal, each a tunnel with one stream (agents/contract/tunnel.py) that carries the messages of
// a terminal (agents/contract/terminal.py). A terminal that was cut goes on for a minute: it is attached again.
const OPEN = 1, OPENED = 2, REFUSED = 3, DATA = 4, WINDOW = 5, END = 6, RESET = 7;
const INPUT = 1, RESIZE = 2, HANG_UP = 3, BEGUN = 4, OUTPUT = 5, ENDED = 6;
const STREAM = 1;
const WINDOW_BYTES = 128 * 1024, FRAME_BYTES = 32 * 1024, PAYLOAD_BYTES = 16 * 1024;
const KEEP_MS = 60_000, FIRST_PAUSE_MS = 200, LONGEST_PAUSE_MS = 3_000, LEAST_TRIES = 3;
// Of RFC 6455: the portal does not let us use it any more.
const POLICY = 1008;
const PASSING = new Set(["no_tunnel", "timed_out"]);

function joined(one, other) {
  const both = new Uint8Array(one.length + other.length);
  both.set(one);
  both.set(other, one.length);
  return both;
}

function message(type, payload = new Uint8Array()) {
  return joined(Uint8Array.of(type, payload.length >> 8, payload.length & 0xff), payload);
}

function frame(type, payload = new Uint8Array()) {
  return joined(Uint8Array.of(type, 0, 0, 0, STREAM), payload);
}

function windowFrame(bytes) {
  const payload = new Uint8Array(4);
  new DataView(payload.buffer).setUint32(0, bytes);
  return frame(WINDOW, payload);
}

export class TerminalStream {
  // `screen`: size(), clear(), show(bytes, done), state(code). `store`: what a reload of the page remembers.
  constructor(url, screen, store) {
    this.url = url;
    this.screen = screen;
    this.store = store;
    const known = store.load();
    this.name = known ?? Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
    this.isNew = known === null;
    // A reload has nothing on its screen.
    this.isReload = known !== null;
    this.received = 0;
    this.cutAt = performance.now();
    this.tries = 0;
    this.isOver = false;
    this.connect();
  }

  connect() {
    this.socket = new WebSocket(this.url);
    this.socket.binaryType = "arraybuffer";
    this.rest = new Uint8Array();
    this.waiting = new Uint8Array();
    this.credit = 0;
    this.shown = 0;
    this.isOpened = false;
    const socket = this.socket;
    socket.addEventListener("open", () => this.open());
    socket.addEventListener("message", (event) => this.socket === socket && this.receive(new Uint8Array(event.data)));
    socket.addEventListener("close", (event) => this.socket === socket && this.closed(event.code));
  }

  open() {
    const [columns, rows] = this.screen.size();
    const asked = { terminal: this.name, is_new: this.isNew, received: this.received, columns, rows, program: "" };
    this.socket.send(frame(OPEN, new TextEncoder().encode(JSON.stringify(asked))));
    this.socket.send(windowFrame(WINDOW_BYTES));
  }

  receive(data) {
    const payload = data.subarray(5);
    if (data[0] === OPENED) this.isOpened = true;
    else if (data[0] === REFUSED) this.refused(new TextDecoder().decode(payload));
    else if (data[0] === DATA) this.take(payload);
    else if (data[0] === WINDOW) {
      this.credit += new DataView(payload.buffer, payload.byteOffset).getUint32(0);
      this.flush();
    } else if (data[0] === END) {
      // Of a terminal that goes on, it is a cut.
      this.socket.send(frame(END));
      this.socket.close();
    } else if (data[0] === RESET) this.socket.close();
  }

  refused(code) {
    if (PASSING.has(code) && !this.isNew) this.socket.close();
    else if (code === "terminal_gone" && this.isReload) {
      // It ended while the page was away: a new one.
      this.isReload = false;
      this.isNew = true;
      this.store.forget();
      this.socket.close();
    } else {
      this.finish(code);
      this.socket.close();
    }
  }

  take(payload) {
    // Messages of a terminal; what is not output leaves room at once.
    let data = joined(this.rest, payload);
    let left = payload.length;
    while (data.length >= 3) {
      const size = (data[1] << 8) | data[2];
      if (data.length < 3 + size) break;
      const type = data[0], body = data.slice(3, 3 + size);
      data = data.slice(3 + size);
      if (type === BEGUN) this.begun(Number(new DataView(body.buffer).getBigUint64(0)));
      else if (type === OUTPUT) {
        this.received += body.length;
        left -= body.length;
        this.screen.show(body, () => this.allow(body.length));
      } else if (type === ENDED) this.finish(new TextDecoder().decode(body.subarray(1)), body[0]);
    }
    this.rest = data;
    // Bytes of a message that is not whole yet count once its output is shown.
    this.allow(left);
  }

  allow(bytes) {
    this.shown += bytes;
    if (this.shown * 2 < WINDOW_BYTES || this.socket.readyState !== WebSocket.OPEN) return;
    this.socket.send(windowFrame(this.shown));
    this.shown = 0;
  }

  begun(offset) {
    if (offset !== this.received) this.screen.clear();
    this.received = offset;
    this.isNew = this.isReload = false;
    this.tries = 0;
    this.store.save(this.name);
    this.screen.state("open");
  }

  type(bytes) {
    for (let at = 0; at < bytes.length; at += PAYLOAD_BYTES) this.send(message(INPUT, bytes.subarray(at, at + PAYLOAD_BYTES)));
  }

  resize(columns, rows) {
    this.send(message(RESIZE, Uint8Array.of(columns >> 8, columns & 0xff, rows >> 8, rows & 0xff)));
  }

  hangUp() {
    this.send(message(HANG_UP));
  }

  send(bytes) {
    // What is typed while nothing is open is lost, as on the command line.
    if (this.isOver || !this.isOpened) return;
    this.waiting = joined(this.waiting, bytes);
    this.flush();
  }

  flush() {
    while (this.waiting.length && this.credit > 0 && this.socket.readyState === WebSocket.OPEN) {
      const count = Math.min(this.waiting.length, this.credit, FRAME_BYTES);
      this.socket.send(frame(DATA, this.waiting.subarray(0, count)));
      this.waiting = this.waiting.slice(count);
      this.credit -= count;
    }
  }

  finish(code, exitCode = 0) {
    this.isOver = true;
    if (code !== "replaced") this.store.forget();
    this.screen.state(code, exitCode);
  }

  closed(code) {
    if (this.isOver) return;
    if (code === POLICY) return this.finish("denied");
    if (this.tries === 0) {
      this.cutAt = performance.now();
      if (!this.isNew) this.screen.state("cut");
    }
    this.tries += 1;
    // A machine that slept tries as well, however late it is.
    if (this.tries > LEAST_TRIES && (this.isNew || performance.now() - this.cutAt > KEEP_MS)) return this.finish(this.isNew ? "unreachable" : "lost");
    const pause = Math.min(FIRST_PAUSE_MS * 2 ** (this.tries - 1), LONGEST_PAUSE_MS);
    setTimeout(() => this.isOver || this.connect(), pause);
  }
}
