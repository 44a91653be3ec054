// The page of a reviewer: two panes, tabs that keep their place, keys, and an answer that brings the next item.
import { failed } from "./failed.js";
import { cheatSheet, isBare, keysOn } from "./keys.js";
import { startReader } from "./reader.js";
import { evidence } from "./review-cite.js";
import { Gone, keep, post, unreachable } from "./review-keep.js";
import { answered, mark } from "./review-missing.js";

const SPLIT = "assay-review-split";
const AHEAD_AFTER = 2_000;
const STEP_KEYS = new Set("jkteEgoTO/");
const stage = document.getElementById("stage");
let life = new AbortController();

cheatSheet();
restoreSplit();
begin();

// --- one item, until the next takes its place

function begin() {
  life.abort();
  life = new AbortController();
  const root = document.getElementById("review");
  const { signal } = life;
  nameSubmitKeys();
  askGuess();
  if (!root) return;
  const form = root.querySelector("#grade");
  const problem = root.querySelector("#problem");
  const tell = (text) => { problem.textContent = text; problem.hidden = !text; };
  const kept = keep(root, form, { signal, lost: tell });
  const parts = tabs(root, signal);
  const cited = evidence(root, form, { signal, changed: kept.changed, show: parts.show, step: parts.step, panel: parts.panel });
  const tags = tagPicker(form, signal);
  const press = answer(root, form, { kept, tell, signal });
  splitter(root, signal);
  dialogs(root, signal, kept);
  keys(root, form, { signal, parts, cited, tags, press });
  if ("held" in root.dataset) lookAhead(root, signal);
}

// While one item is read the server reads what the next one opens with. It stays free for whoever is quicker.
function lookAhead(root, signal) {
  const address = new URL(`../../${root.dataset.round}/ahead/`, new URL(root.dataset.base, location.href));
  const waits = setTimeout(() => fetch(address, { signal, priority: "low" }).catch(() => {}), AHEAD_AFTER);
  signal.addEventListener("abort", () => clearTimeout(waits));
}

function nameSubmitKeys() {
  if (!/Mac|iPhone|iPad/.test(navigator.platform)) return;
  for (const key of document.querySelectorAll(".submit-keys")) key.textContent = "⌘ ↵";
}

// --- parts of the item: each keeps its scroll position while another is looked at

function tabs(root, signal) {
  const base = new URL(root.dataset.base, location.href);
  const panels = [...root.querySelectorAll(".panel")];
  const links = [...root.querySelectorAll(".tabs a")];
  let current = root.dataset.tab;
  let reader = null;
  let coming = null; // the steps, while they are loaded: asked for twice, they would be replaced under their reader
  let led = false; // whether a key waits for them
  const panelOf = (key) => panels.find((panel) => panel.id === `panel-${key}`);

  for (const panel of panels) {
    panel.hidden = false;
    panel.classList.toggle("away", panel.id !== `panel-${current}`);
    settle(panel);
  }

  // Links that name only a query mean this part, whatever the address of the page has become.
  function settle(panel) {
    const address = new URL(panel.dataset.address, location.href);
    const moved = location.pathname !== address.pathname || panel.id !== "panel-steps"; // steps move only within their own
    if (moved) for (const link of panel.querySelectorAll('a[href^="?"]')) link.href = new URL(link.getAttribute("href"), address).href;
    const reading = panel.querySelector("#reader");
    if (reading && !reader) reader = startReader(reading, { signal, reveal: () => { if (current !== "steps") open("steps"); } });
  }

  async function fill(panel, address) {
    panel.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(address, { headers: { "HX-Request": "true" }, signal });
      if (answer.redirected) throw new Error("Your session has ended. Log in again in another tab.");
      if (!answer.ok) throw new Error(failed(answer.status));
      const text = await answer.text();
      for (const place of root.querySelectorAll("#cite")) place.removeAttribute("id");
      panel.innerHTML = text;
      htmx.process(panel);
      document.dispatchEvent(new CustomEvent("assay:shown", { detail: panel }));
      settle(panel);
      panel.scrollTop = 0;
      panel.querySelector("#cite")?.scrollIntoView({ block: "center" });
      return true;
    } catch (error) {
      if (error.name === "AbortError") return false;
      const notice = document.createElement("p");
      notice.className = "notice error";
      notice.setAttribute("role", "alert");
      notice.textContent = `This part could not be loaded. ${unreachable(error)} Choose it again to try once more.`;
      panel.replaceChildren(notice);
      delete panel.dataset.filled;
      return false;
    } finally { panel.removeAttribute("aria-busy"); }
  }

  async function open(key, address = null) {
    const panel = panelOf(key);
    if (!panel) return;
    current = key;
    for (const other of panels) other.classList.toggle("away", other !== panel);
    for (const link of links) link.toggleAttribute("aria-current", false);
    links.find((link) => link.dataset.tab === key)?.setAttribute("aria-current", "page");
    panel.focus({ preventScroll: true });
    const empty = !panel.firstElementChild || panel.querySelector(":scope > .notice.error");
    if (key !== "steps") { if (empty || address) await fill(panel, address ?? panel.dataset.address); return; }
    if (empty) await (coming ??= fill(panel, address ?? panel.dataset.address).finally(() => { coming = null; }));
  }

  const keyOf = (url) => {
    if (url.origin !== base.origin || !url.pathname.startsWith(base.pathname)) return null;
    const rest = url.pathname.slice(base.pathname.length).replace(/\/$/, "");
    return panels.some((panel) => panel.id === `panel-${rest || "steps"}`) ? rest || "steps" : null;
  };

  async function show(url) {
    const key = keyOf(url);
    if (!key) { location.assign(url); return; }
    if (key !== "steps") { await open(key, url.href); return; }
    await open("steps");
    if (!await reader?.openPlace(url)) document.getElementById("receipt").textContent = "That place is not there.";
  }

  root.addEventListener("click", (event) => {
    const link = event.target.closest(".tabs a, .panel a");
    if (!link || event.defaultPrevented || event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
    if (link.matches("[download], .gap, .outline a, .found a, .step-no, [data-clear-find]")) return;
    const url = new URL(link.href);
    const key = keyOf(url);
    if (!key) return;
    event.preventDefault();
    if (link.dataset.tab) open(key); else show(url);
  }, { signal });

  const turn = (by) => {
    const at = links.findIndex((link) => link.dataset.tab === current);
    open(links[(at + by + links.length) % links.length].dataset.tab);
  };
  // Keys of the steps lead to them; once they are there, their reader takes the keys, this first one too. Until then
  // no key does anything: what follows "/" or "g" is no answer. Steps that were not recorded have no reader.
  const toSteps = (key) => {
    if (led) return () => {};
    if (reader || !panelOf("steps") || !STEP_KEYS.has(key)) return null;
    return async () => {
      led = true;
      await open("steps");
      led = false;
      if (reader) document.dispatchEvent(new KeyboardEvent("keydown", { key }));
    };
  };
  return { show, turn, toSteps, panel: () => panelOf(current), step: () => reader?.step() ?? null };
}

// --- the answer

const newToken = () => globalThis.crypto.randomUUID?.() ?? "10000000-1000-4000-8000-100000000000".replace(/[018]/g, (c) =>
  (Number(c) ^ (crypto.getRandomValues(new Uint8Array(1))[0] & (15 >> (Number(c) / 4)))).toString(16));

function answer(root, form, { kept, tell, signal }) {
  const button = root.querySelector("button[form='grade']");
  let busy = false;
  let token = null; // of the press that has no answer yet: the same one, so that it is stored once
  let retry = 0;

  form.addEventListener("input", (event) => {
    answered(event.target.closest(".question"));
    if (!token || busy) return;
    token = null;
    clearTimeout(retry);
    tell("Not submitted yet: you have changed something since. Submit again.");
  }, { signal });
  signal.addEventListener("abort", () => clearTimeout(retry));

  async function press() {
    if (busy || !button) return;
    busy = true;
    button.setAttribute("aria-busy", "true");
    clearTimeout(retry);
    token ??= newToken();
    form.elements.token.value = token;
    try {
      const told = await post(form.action, new FormData(form), { signal });
      await take(told);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error instanceof Gone) { tell(`Not submitted. ${error.message}`); return; }
      tell(`Not submitted. ${unreachable(error)} What you typed is still here. Trying again.`);
      retry = setTimeout(press, 3_000);
    } finally {
      busy = false;
      button.removeAttribute("aria-busy");
    }
  }

  async function take(told) {
    if (told.ok) {
      kept.settle();
      swap(await told.text());
      return;
    }
    if (!told.headers.get("content-type")?.includes("json")) throw new Error(failed(told.status));
    token = null;
    const { fields, problem } = await told.json();
    if (told.status === 409) kept.settle(); // the server has kept the text
    tell(problem);
    mark(form, fields);
    if (problem) root.querySelector("#problem").focus();
  }

  form.addEventListener("submit", (event) => { event.preventDefault(); press(); }, { signal });
  return press;
}

function swap(text) {
  const next = new DOMParser().parseFromString(text, "text/html").body.firstElementChild;
  stage.replaceChildren(document.adoptNode(next));
  htmx.process(stage);
  history.pushState({}, "", next.dataset.base ?? next.dataset.address);
  document.title = next.dataset.title;
  document.dispatchEvent(new CustomEvent("assay:shown", { detail: stage }));
  scrollTo(0, 0);
  document.body.classList.toggle("desk", next.id === "review");
  begin();
  if (!document.querySelector("dialog[open]")) document.getElementById("item-title").focus({ preventScroll: true });
}
addEventListener("popstate", () => {
  const root = document.getElementById("review");
  if (root && !location.pathname.startsWith(root.dataset.base)) location.reload();
  else if (!root) location.reload();
});

// --- dialogs: skip, flag, instructions, the guess

function dialogs(root, signal, kept) {
  root.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-dialog]");
    if (opener && !event.metaKey && !event.ctrlKey) {
      event.preventDefault();
      root.querySelector(opener.dataset.dialog).showModal();
    }
    if (event.target.closest("[data-close]")) {
      event.preventDefault();
      event.target.closest("dialog").close();
    }
  }, { signal });
  for (const form of root.querySelectorAll("#skip form, #flag form")) form.addEventListener("submit", () => kept.leave(), { signal });
  root.addEventListener("submit", async (event) => { // what leaves the page and comes back to this item or another
    const form = event.target.closest("#undo-form, .panel form[method=post]");
    if (!form) return;
    event.preventDefault();
    await kept.save();
    kept.leave();
    form.submit();
  }, { signal });
}

function askGuess() {
  const dialog = document.getElementById("guess");
  if (!dialog) return;
  dialog.showModal();
  const done = () => { dialog.remove(); document.getElementById("item-title")?.focus({ preventScroll: true }); };
  const send = async (guess) => {
    dialog.close();
    if (!guess) return;
    try {
      const told = await post(dialog.dataset.address, { guess });
      if (!told.ok) throw new Error("");
    } catch { const receipt = document.getElementById("receipt"); if (receipt) receipt.textContent = "Your guess was not stored."; }
  };
  dialog.addEventListener("close", done);
  dialog.addEventListener("submit", (event) => { event.preventDefault(); send(event.submitter?.value); });
  dialog.addEventListener("keydown", (event) => {
    const guess = { 1: "pass", 2: "fail", 3: "no_idea" }[/^(?:Digit|Numpad)([123])$/.exec(event.code)?.[1]];
    if (!guess || event.repeat || !keysOn()) return;
    event.preventDefault();
    send(guess);
  });
}

// --- tags: found by typing

function tagPicker(form, signal) {
  const field = form.querySelector("#tag-find");
  if (!field) return null;
  const list = form.querySelector("#tag-list");
  const chosen = form.querySelector("#tags-chosen");
  const none = form.querySelector("#tag-none");
  const rows = [...form.querySelectorAll(".tag-row")];
  const shown = () => rows.filter((row) => !row.hidden);

  function render() {
    chosen.replaceChildren(...rows.filter((row) => row.querySelector("input").checked).map((row) => {
      const chip = document.createElement("li");
      chip.textContent = `${row.querySelector(".mono").textContent} ${row.querySelector(".tag-name").textContent}`;
      return chip;
    }));
  }
  function filter() {
    const wanted = field.value.trim().toLowerCase();
    const words = wanted.split(/[\s_]+/);
    for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    none.hidden = shown().length > 0;
  }
  field.addEventListener("input", (event) => { event.stopPropagation(); filter(); }, { signal });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    if (!field.value.trim() || !shown().length) return;
    shown()[0].querySelector("input").click();
    field.value = "";
    filter();
  }, { signal });
  form.addEventListener("change", render, { signal });
  render();
  return { open: () => { list.open = true; list.scrollIntoView({ block: "nearest" }); field.focus({ preventScroll: true }); } };
}

// --- panes

function restoreSplit() {
  let share = 65;
  try { share = Number(localStorage.getItem(SPLIT)) || 65; } catch { /* the default, then */ }
  document.documentElement.style.setProperty("--split", `${share}%`);
}

function splitter(root, signal) {
  const bar = root.querySelector("#splitter");
  const read = () => Number.parseFloat(document.documentElement.style.getPropertyValue("--split"));
  const set = (share) => {
    const most = 100 - (400 / root.clientWidth) * 100; // the form keeps 400 px
    const value = Math.round(Math.min(Math.max(share, 30), Math.max(30, Math.min(most, 85))) * 10) / 10;
    document.documentElement.style.setProperty("--split", `${value}%`);
    bar.setAttribute("aria-valuenow", String(Math.round(value)));
    try { localStorage.setItem(SPLIT, String(value)); } catch { /* this page only */ }
  };
  bar.setAttribute("aria-valuenow", String(Math.round(read())));
  bar.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -2, ArrowRight: 2, Home: -100, End: 100 }[event.key];
    if (!by) return;
    event.preventDefault();
    set(read() + by);
  }, { signal });
  bar.addEventListener("pointerdown", (event) => {
    bar.setPointerCapture(event.pointerId);
    const follow = (move) => set(((move.clientX - root.getBoundingClientRect().left) / root.clientWidth) * 100);
    bar.addEventListener("pointermove", follow);
    bar.addEventListener("pointerup", () => bar.removeEventListener("pointermove", follow), { once: true });
  }, { signal });
}

// --- keys

function keys(root, form, { signal, parts, cited, tags, press }) {
  const first = [...form.querySelectorAll("#q-decision input, #q-answer input")];
  const second = [...form.querySelectorAll("#q-integrity input")];
  const text = form.querySelector("#text");
  const choose = (input) => {
    if (!input || input.checked) return;
    input.checked = true;
    input.dispatchEvent(new Event("input", { bubbles: true }));
    input.dispatchEvent(new Event("change", { bubbles: true }));
    answered(input.closest(".question"));
    input.closest("fieldset").scrollIntoView({ block: "nearest" });
  };
  const cycle = (number) => {
    const inputs = [...form.querySelectorAll(`[data-requirement="${number}"] input`)];
    if (inputs.length) choose(inputs[(inputs.findIndex((input) => input.checked) + 1) % inputs.length]);
  };
  const click = (selector) => () => root.querySelector(selector)?.click();
  const actions = {
    c: () => cited?.cite(), J: () => cited?.move(1), K: () => cited?.move(-1),
    x: () => tags?.open(), n: () => form.querySelector("#note").focus(),
    s: click("[data-dialog='#skip']"), f: click("[data-dialog='#flag']"), u: () => root.querySelector("#undo-form").requestSubmit(),
    i: () => root.querySelector("#instructions").showModal(),
    "[": () => parts.turn(-1), "]": () => parts.turn(1),
  };

  // By the place of the key, as some keyboards need Shift for digits; what else that key writes goes before.
  function byDigit(event) {
    if (event.getModifierState?.("AltGraph") || ["/", "?", "[", "]"].includes(event.key)) return false;
    const number = Number(/^(?:Digit|Numpad)([1-9])$/.exec(event.code)?.[1]);
    if (!number) return false;
    if (event.shiftKey) cycle(number);
    else if (number === 1 && text) text.focus();
    else choose(number <= 3 ? first[number - 1] : second[number - 4]);
    return true;
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.altKey) {
      if (document.querySelector("dialog[open]")) return;
      event.preventDefault();
      if (!event.repeat) press();
      return;
    }
    if (event.key === "Escape") { leave(event); return; }
    if (!keysOn() || !isBare(event)) return;
    if ("jkteEgTo".includes(event.key)) cited?.unpick();
    if (event.repeat && !["J", "K"].includes(event.key)) return;
    const action = parts.toSteps(event.key) ?? actions[event.key];
    if (action) action(); else if (!byDigit(event)) return;
    event.preventDefault();
  }, { signal });

  function leave(event) {
    const at = document.activeElement;
    if (event.defaultPrevented || document.querySelector("dialog[open]") || !at || !form.contains(at)) return;
    if (at.id === "tag-find") root.querySelector("#tag-list").open = false;
    parts.panel()?.focus({ preventScroll: true });
  }

  // Chosen with the pointer, an option must not keep the focus: the keys would be dead.
  let pointed = 0;
  form.addEventListener("pointerup", () => { pointed = performance.now(); }, { signal, capture: true });
  form.addEventListener("change", (event) => {
    if (event.target.matches("[type=radio], [type=checkbox]") && performance.now() - pointed < 600) event.target.blur();
  }, { signal });
}
