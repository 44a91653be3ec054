// Keeps what a reviewer types: drafts on the server, the lease while the page is looked at, the seconds spent on it.
import { failed } from "./failed.js";

const DRAFT_AFTER = 700;
const BEAT_EVERY = 60_000;
const IDLE_AFTER = 60_000;
const RETRY = [2_000, 4_000, 8_000, 15_000, 30_000];

const cookie = () => /(?:^|; )assay_csrf=([^;]+)/.exec(document.cookie)?.[1] ?? "";

// The token of the cookie, not that of the page: another tab may have logged in anew meanwhile.
export async function post(address, data, options = {}) {
  const body = new URLSearchParams(data);
  body.delete("csrfmiddlewaretoken");
  const headers = { "HX-Request": "true", "x-csrftoken": cookie(), "content-type": "application/x-www-form-urlencoded" };
  const answer = await fetch(address, { method: "POST", body: body.toString(), headers, ...options });
  if (answer.redirected) throw new Error("Your session has ended. Log in again in another tab; what you typed is still here.");
  if (answer.status === 404) throw new Gone();
  return answer;
}

// An item that was lost before anything was typed does not exist any more for its reader: no use in trying again.
export class Gone extends Error {
  constructor() {
    super("This item is no longer yours: its time ran out, or it was taken back. What you typed is still on this page. Open your rounds to go on with the next item.");
  }
}

export const unreachable = (error) => (error instanceof TypeError ? "The server cannot be reached." : error.message);

export function keep(root, form, { signal, lost }) {
  const base = root.dataset.base;
  const receipt = root.querySelector("#receipt");
  const clock = root.querySelector("#timer");
  const on = (target, kind, act, options = {}) => target.addEventListener(kind, act, { signal, ...options });
  let version = 0;
  let saved = 0;
  let failures = 0;
  let timer = 0;
  let held = "held" in root.dataset;
  let leaving = false;
  let saving = Promise.resolve();

  const say = (text) => { receipt.textContent = text; };
  const dirty = () => version !== saved;
  const again = () => RETRY[Math.min(failures++, RETRY.length - 1)];

  // --- drafts: the receipt says "saved" only once the server has said so

  function changed() {
    version += 1;
    clearTimeout(timer);
    timer = setTimeout(save, DRAFT_AFTER);
  }

  function save(options) {
    clearTimeout(timer);
    saving = saving.then(() => send(options));
    return saving;
  }

  async function send(options) {
    if (!dirty() || signal.aborted) return;
    const sent = version;
    try {
      const answer = await post(`${base}draft/`, new FormData(form), options);
      const told = answer.headers.get("content-type")?.includes("json") ? await answer.json() : {};
      if (signal.aborted) return;
      if (answer.ok) {
        saved = sent;
        failures = 0;
        say(`Saved ${told.saved.slice(11)}`);
      } else if (answer.status === 409) {
        saved = sent; // kept by the server, though it does not count
        say("Kept, but this item is no longer yours");
        stop(told.problem);
      } else throw new Error(told.problem ?? failed(answer.status));
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Gone) { say("Not saved"); stop(error.message); return; }
      say(`Not saved. ${unreachable(error)} Trying again.`);
      timer = setTimeout(save, again());
    }
  }

  on(form, "input", changed);
  on(globalThis, "beforeunload", (event) => { if (dirty() && !leaving) event.preventDefault(); });
  on(document, "visibilitychange", () => {
    if (document.visibilityState === "hidden") { if (dirty()) save({ keepalive: true }); } else beat();
  });
  on(globalThis, "online", () => { if (dirty()) save(); });

  // --- the lease

  function stop(problem) {
    held = false;
    lost(problem);
  }

  async function beat() {
    if (!held || document.visibilityState !== "visible") return;
    try {
      const answer = await post(`${base}heartbeat/`, {}, { signal });
      if (answer.status === 409) stop((await answer.json()).problem);
    } catch (error) {
      if (error instanceof Gone) stop(error.message);
      else if (error.name !== "AbortError") say(unreachable(error));
    }
  }
  const beats = setInterval(beat, BEAT_EVERY);

  // --- seconds looked at the item; a minute without a move is idle, and so is a hidden page

  let seconds = Number(form.elements.seconds.value) || 0;
  let moved = performance.now();
  for (const kind of ["pointermove", "pointerdown", "keydown", "wheel", "scroll", "touchmove"]) {
    on(document, kind, () => { moved = performance.now(); }, { capture: true, passive: true });
  }
  const ticks = setInterval(() => {
    const away = document.visibilityState !== "visible" || performance.now() - moved > IDLE_AFTER;
    if (away || root.querySelector("#guess[open]")) return;
    seconds += 1;
    form.elements.seconds.value = seconds;
    clock.textContent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  }, 1000);

  signal.addEventListener("abort", () => { clearTimeout(timer); clearInterval(beats); clearInterval(ticks); });

  return {
    changed,
    save: () => (dirty() ? save() : saving),
    leave: () => { leaving = true; },
    settle: () => { clearTimeout(timer); saved = version; },
    say,
  };
}
