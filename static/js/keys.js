// Single-key shortcuts with manners: none inside a field, on a focused button, with a dialog open or a modifier held,
// and none at all where the reader has switched them off.
const SWITCH = "assay-keys";
export const keysOn = () => { try { return localStorage.getItem(SWITCH) !== "off"; } catch { return true; } };
export const switchKeys = (on) => { try { localStorage.setItem(SWITCH, on ? "on" : "off"); } catch { /* this page only */ } };

const EDITABLE = "input, select, textarea, [contenteditable]:not([contenteditable='false'])";

export function isBare(event) {
  if (event.defaultPrevented || event.isComposing || event.metaKey) return false;
  // AltGr only chooses a character, though some systems report it as Ctrl and Alt.
  const altGr = event.getModifierState?.("AltGraph");
  if (altGr ? event.key.length !== 1 : event.ctrlKey || event.altKey) return false;
  if (document.querySelector("dialog[open]")) return false;
  const at = event.target instanceof Element ? event.target : document.body;
  return !at.closest(EDITABLE) && !at.closest("button");
}

// Digits by position too, so that a keyboard which needs Shift for them (AZERTY) can go to a step.
export function digit(event) {
  if (/^[0-9]$/.test(event.key)) return event.key;
  return /^(?:Digit|Numpad)([0-9])$/.exec(event.code)?.[1] ?? null;
}

export function onKeys(bindings, { signal } = {}) {
  document.addEventListener("keydown", (event) => {
    if (!keysOn() || !isBare(event)) return;
    const action = bindings[event.key];
    if (!action) return;
    event.preventDefault();
    action(event);
  }, { signal });
}

// The list of keys: opened by its key or by a button, with the switch for them in it.
export function cheatSheet() {
  const keys = document.getElementById("keys");
  const on = document.getElementById("keys-on");
  if (!keys) return;
  on.checked = keysOn();
  on.addEventListener("change", () => switchKeys(on.checked));
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-open]");
    if (opener) document.querySelector(opener.dataset.open)?.showModal();
  });
  onKeys({ "?": () => keys.showModal() });
}
