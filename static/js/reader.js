// The reader: moving between steps that may not be loaded yet, finding, and marking what is cited.
import { failed } from "./failed.js";
import { cheatSheet, digit, isBare, keysOn, onKeys } from "./keys.js";

const PER_CHUNK = 25;
const ROW = 24; // pixels of a row of the outline, as in its style
const CALL = 1;
const FAILED = 2;
const alone = document.getElementById("reader");
if (alone && !alone.closest("[data-review]")) {
  startReader(alone);
  cheatSheet();
}

// Each step in a word: a digit for what it is, then its locator unless that is the number after the one before.
function decoded(codes) {
  const locators = [];
  const kinds = [];
  let number = 0;
  for (const word of codes.split(" ")) {
    const locator = word.slice(1) || String(number + 1);
    locators.push(locator);
    kinds.push(Number(word[0]));
    number = Number(locator);
  }
  return { locators, kinds };
}

// Starts the reader in `root`, which scrolls with the window or in a pane of its own, until `signal` is aborted.
// Returns the current step, a way to a step and a way to a cited place.
// `reveal` brings the steps into view where something else is shown in their place.
export function startReader(root, { signal, reveal = () => {} } = {}) {
  const base = root.dataset.base;
  const outline = document.getElementById("outline");
  const { locators, kinds } = decoded(outline.dataset.codes);
  const indexOf = new Map(locators.map((locator, index) => [locator, index]));
  const perPart = Number(outline.dataset.rows);
  const said = document.getElementById("said");
  let current = -1;

  const stepElement = (index) => document.getElementById(`s${locators[index]}`);
  const say = (text) => { said.textContent = text; };

  // --- loading

  // One load at a time for the one who navigates: an older answer that comes late must not replace a newer one.
  // A held key asks many times a second: only the last of them is asked of the server.
  // What is still on its way when the next item takes the place of this one would land in that item's steps.
  let loading = new AbortController();
  let asked = 0;
  signal?.addEventListener("abort", () => loading.abort());
  async function load(number, query = "") {
    loading.abort();
    const mine = loading = new AbortController();
    const wanted = `#chunk-${number}${query ? "" : ".pending"}`;
    if (!document.querySelector(wanted)) return true;
    const hurried = performance.now() - asked < 200;
    asked = performance.now();
    if (hurried) await new Promise((done) => { setTimeout(done, 120); });
    if (mine.signal.aborted) return false;
    return await fill(wanted, `${number}/${query}`, mine.signal) || (!mine.signal.aborted && !document.querySelector(wanted));
  }

  // Puts what the server answers in the place of what `selector` finds by then; says whether it did.
  async function fill(selector, address, until) {
    try {
      const answer = await fetch(`${base}chunk/${address}`, { signal: until, headers: { "HX-Request": "true" } });
      if (answer.redirected) { location.reload(); return false; } // the session has ended
      if (!answer.ok) throw new Error(failed(answer.status));
      const text = await answer.text();
      const old = document.querySelector(selector);
      if (until?.aborted || !old) return false;
      old.outerHTML = text;
      const chunk = document.getElementById(old.id);
      htmx.process(chunk);
      document.dispatchEvent(new CustomEvent("assay:shown", { detail: chunk }));
      return true;
    } catch (error) {
      if (error.name !== "AbortError") say(`These steps could not be loaded. ${error.message}`);
      return false;
    }
  }

  // What comes into view by scrolling is loaded beside that, and never over what has come meanwhile.
  const seen = new IntersectionObserver((entries) => {
    for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
      seen.unobserve(target);
      fill(`#${target.id}.pending`, `${target.id.slice("chunk-".length)}/`, signal);
    }
  }, { rootMargin: "200px 0px" });
  document.querySelectorAll(".chunk.pending").forEach((chunk) => seen.observe(chunk));
  signal?.addEventListener("abort", () => seen.disconnect());

  // Chunks that arrive above the target, and steps that get their true height, push it away: put it back until
  // the reader scrolls.
  let hold = null;
  function bring(element, block) {
    const put = () => { if (hold === put) element.scrollIntoView({ block }); };
    hold = put;
    put();
    for (const delay of [30, 120, 300, 600]) setTimeout(put, delay);
    setTimeout(() => { if (hold === put) hold = null; }, 700);
  }
  for (const kind of ["wheel", "touchmove", "pointerdown"]) addEventListener(kind, () => { hold = null; }, { passive: true, signal });

  // --- the outline: of a long trajectory, rows come when they are looked at

  const partOf = (index) => document.getElementById(`outline-${Math.floor(index / perPart)}`);
  const rowOf = (index) => {
    const part = partOf(index);
    return part?.matches(".pending") ? null : part?.getElementsByTagName("a")[index % perPart];
  };

  async function fillPart(part) {
    if (part.hasAttribute("aria-busy")) return;
    part.setAttribute("aria-busy", "true");
    const number = Number(part.id.slice("outline-".length));
    try {
      const answer = await fetch(`${base}chunk/${number}/?outline`, { signal, headers: { "HX-Request": "true" } });
      if (answer.redirected || !answer.ok) return; // the link to its steps stays
      const focused = part.contains(document.activeElement);
      part.innerHTML = await answer.text();
      part.classList.remove("pending");
      looked.unobserve(part);
      if (focused) part.querySelector("a").focus({ preventScroll: true });
      rowOf(current)?.setAttribute("aria-current", "true");
    } catch { /* gone, or without a connection: the link to its steps stays */ } finally { part.removeAttribute("aria-busy"); }
  }

  const looked = new IntersectionObserver((entries) => {
    for (const { target } of entries.filter((entry) => entry.isIntersecting)) fillPart(target);
  }, { root: outline, rootMargin: "600px 0px" });
  outline.querySelectorAll(".pending").forEach((part) => looked.observe(part));
  signal?.addEventListener("abort", () => looked.disconnect());

  function mark(index) {
    if (index === current) return;
    rowOf(current)?.removeAttribute("aria-current");
    current = index;
    const part = partOf(index);
    if (!part) return;
    const row = rowOf(index);
    row?.setAttribute("aria-current", "true");
    const within = row ? row.getBoundingClientRect().top : part.getBoundingClientRect().top + (index % perPart) * ROW;
    const top = within - outline.getBoundingClientRect().top;
    if (top < ROW || top > outline.clientHeight - 2 * ROW) outline.scrollTop += top - outline.clientHeight / 3;
  }

  async function go(index) {
    if (index < 0 || index >= locators.length) return;
    mark(index);
    if (!await load(Math.floor(index / PER_CHUNK))) return;
    const step = stepElement(index);
    if (!step) return;
    document.querySelectorAll(".step.here").forEach((other) => other.classList.remove("here"));
    step.classList.add("here");
    step.focus({ preventScroll: true });
    bring(step, "start");
    history.replaceState(history.state, "", `${base}?step=${encodeURIComponent(locators[index])}#s${locators[index]}`);
  }

  const next = (from, step, wanted) => {
    for (let at = from + step; at >= 0 && at < locators.length; at += step) {
      if (!wanted || kinds[at] & wanted) return at;
    }
    say(step > 0 ? "No further one." : "None before this one.");
    return -1;
  };
  const move = (step, wanted) => () => go(next(Math.max(current, step > 0 ? -1 : 0), step, wanted));

  // --- which step is being read: the one at the top of the window, or of the pane

  let waiting = false;
  function follow() {
    waiting = false;
    if (hold) return;
    const pane = root.closest(".panel")?.getBoundingClientRect().top ?? 0;
    const under = document.elementFromPoint(document.getElementById("steps").getBoundingClientRect().left + 20, Math.max(120, pane + 60))?.closest(".step");
    if (under) mark(indexOf.get(under.dataset.step) ?? -1);
  }
  addEventListener("scroll", (event) => {
    const ofSteps = event.target === document || event.target.contains(root) || event.target.id === "steps";
    if (waiting || !ofSteps) return;
    waiting = true;
    requestAnimationFrame(follow);
  }, { passive: true, capture: true, signal });

  // --- links within the trajectory, from the outline, from hits, from an address

  async function openPlace(address) {
    const locator = address.searchParams.get("step");
    const index = indexOf.get(locator);
    if (index === undefined) return false;
    if (!address.searchParams.has("part")) { await go(index); return true; }
    document.querySelectorAll("#cite").forEach((line) => line.removeAttribute("id"));
    document.querySelectorAll(".l.cited").forEach((line) => line.classList.remove("cited"));
    document.querySelectorAll(".step.target").forEach((step) => step.classList.remove("target"));
    mark(index);
    if (!await load(Math.floor(index / PER_CHUNK), address.search)) return true;
    const line = document.getElementById("cite");
    bring(line ?? stepElement(index), line ? "center" : "start");
    history.replaceState(history.state, "", address);
    highlight();
    return true;
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest(".outline a, .found a, .step-no");
    if (!link || event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
    const address = new URL(link.href);
    if (!indexOf.has(address.searchParams.get("step"))) return;
    event.preventDefault();
    if (link.closest(".found")) chooseHit(link);
    openPlace(address);
  }, { signal });

  function openHash() {
    const locator = decodeURIComponent(location.hash.slice(2));
    if (location.hash.startsWith("#s") && indexOf.has(locator)) go(indexOf.get(locator));
  }
  addEventListener("hashchange", openHash, { signal });

  // --- finding

  const field = document.getElementById("q");
  const found = document.getElementById("found");
  const hits = () => [...found.querySelectorAll(".found a")];
  let hit = -1;
  let goes = false; // Enter was pressed before the hits were there

  function chooseHit(link) {
    const all = hits();
    all[hit]?.removeAttribute("aria-current");
    hit = all.indexOf(link);
    link.setAttribute("aria-current", "true");
    link.scrollIntoView({ block: "nearest" });
    document.getElementById("found-at").textContent = `${hit + 1} / ${all.length}`;
  }

  function toHit(step) {
    const all = hits();
    if (!all.length) return;
    const link = all[(hit + step + all.length) % all.length];
    chooseHit(link);
    openPlace(new URL(link.href));
  }

  function clearFind() {
    field.value = "";
    found.replaceChildren();
    hit = -1;
    highlight();
  }

  // Marks what was found without touching the text.
  function highlight() {
    if (!globalThis.Highlight) return;
    CSS.highlights.delete("found");
    const wanted = field.value.toLowerCase();
    if (!wanted || document.getElementById("pattern").checked) return;
    const ranges = [];
    for (const line of document.querySelectorAll(".step .l.cited")) {
      const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
      for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        for (let at = node.data.toLowerCase().indexOf(wanted); at >= 0; at = node.data.toLowerCase().indexOf(wanted, at + wanted.length)) {
          const range = new Range();
          range.setStart(node, at);
          range.setEnd(node, Math.min(node.length, at + wanted.length));
          ranges.push(range);
        }
      }
    }
    CSS.highlights.set("found", new Highlight(...ranges));
  }

  field.addEventListener("keydown", (event) => {
    goes = event.key === "Enter" && field.dataset.asked !== field.value;
    if (event.key === "Enter" && hits().length && !goes) {
      event.preventDefault();
      toHit(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      clearFind();
      field.blur();
    }
  });
  found.addEventListener("htmx:afterSwap", () => {
    hit = -1;
    field.dataset.asked = field.value;
    if (goes) toHit(1);
    goes = false;
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-clear-find]")) { event.preventDefault(); clearFind(); }
  }, { signal });

  // --- what is folded

  function unfold(where) {
    where.querySelectorAll("details").forEach((details) => { details.open = true; });
    where.querySelectorAll(".gap").forEach((gap) => gap.click());
  }

  // --- going to a number

  let typed = null;
  function number(event) {
    if (typed === null || !keysOn() || !isBare(event)) return;
    const figure = digit(event);
    if (figure !== null) typed += figure;
    else if (event.key === "Backspace") typed = typed.slice(0, -1);
    else if (event.key === "Enter") { go(indexOf.get(typed) ?? next(Number(typed) - 2, 1)); typed = null; }
    else { typed = null; return; }
    event.preventDefault();
    event.stopImmediatePropagation();
    if (typed !== null) say(`Go to step ${typed}`);
  }
  document.addEventListener("keydown", number, { capture: true, signal });

  const actions = {
    j: move(1), k: move(-1),
    t: move(1, CALL), T: move(-1, CALL),
    e: move(1, FAILED), E: move(-1, FAILED),
    o: () => { const step = stepElement(current); if (step) unfold(step); },
    O: () => unfold(document.getElementById("steps")),
    g: () => { typed = ""; say("Go to step: type its number, then Enter"); },
    "/": () => field.focus(),
  };
  const revealing = ([key, action]) => [key, (event) => { reveal(); action(event); }];
  onKeys(Object.fromEntries(Object.entries(actions).map(revealing)), { signal });

  const wanted = new URL(location.href).searchParams.get("step");
  if (wanted && indexOf.has(wanted)) mark(indexOf.get(wanted));
  if (!document.getElementById("cite")) openHash();
  return { openPlace, step: () => stepElement(current) };
}
