// Evidence: from the selected text, line or step to a locator with its quote, and from a locator back to the place.
// The locators are those of the judge's citations; the server checks each quote against the text it showed.
import { answered } from "./review-missing.js";

const LONGEST = 400;
const SHORTEST = 8;
const WORDS = { action: "call", observation: "result" };

export function evidence(root, form, { signal, changed, show, step, panel }) {
  const field = form.querySelector("#evidence");
  const list = form.querySelector("#chips");
  if (!field) return null;
  const base = root.dataset.base;
  const items = JSON.parse(form.querySelector("#evidence-kept").textContent);
  const say = (text) => { form.querySelector("#cite-said").textContent = text; };
  let picked = null;

  // --- chips

  const words = (item) => {
    const line = item.line_start && item.kind !== "step" ? ` line ${item.line_start}` : "";
    const place = item.kind === "step" ? `step ${item.target}` : `${item.kind === "instruction" ? "instruction" : item.target}${line}`;
    return `${place} · “${item.quote.replace(/\s+/g, " ").slice(0, 60)}${item.quote.length > 60 ? "…" : ""}”`;
  };

  function render() {
    field.value = JSON.stringify(items);
    list.replaceChildren(...items.map((item, index) => {
      const row = document.createElement("li");
      const link = document.createElement("a");
      link.href = address(item);
      link.textContent = words(item);
      link.addEventListener("click", (event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        show(new URL(link.href));
      });
      const remove = document.createElement("button");
      remove.type = "button";
      remove.className = "quiet small";
      remove.textContent = "×";
      remove.setAttribute("aria-label", `Take out ${words(item)}`);
      remove.addEventListener("click", () => {
        items.splice(index, 1);
        render();
        changed();
        form.querySelector("#q-evidence").focus();
      });
      row.append(link, remove);
      return row;
    }));
  }

  function address(item) {
    const query = new URLSearchParams();
    const lines = item.line_start ? { lines: `${item.line_start}-${Math.max(item.line_start, item.line_end)}` } : {};
    const set = (values) => { for (const [key, value] of Object.entries(values)) query.set(key, value); };
    if (item.kind === "step") set({ step: item.target, part: item.part, item: Math.max(1, item.item), ...lines });
    else if (item.kind === "instruction") set(lines);
    else if (item.kind === "reference") set({ path: item.target, ...lines });
    else {
      const cut = item.target.indexOf("/");
      set({ root: item.target.slice(0, cut), path: item.target.slice(cut + 1), ...lines });
    }
    const part = { step: "", instruction: "task/", reference: "reference/" }[item.kind] ?? "deliverable/";
    return new URL(`${base}${part}?${query}#cite`, location.href).href;
  }

  // --- places

  const LINE = ".l[data-n], .document [data-line]";
  const lineOf = (node) => (node instanceof Element ? node : node?.parentElement)?.closest(LINE);
  const holderOf = (line) => line.closest(".document[data-path], .lines[data-step], .lines[data-path], .lines[data-instruction]");
  const numberOf = (line) => Number(line.dataset.line ?? line.dataset.n);

  // What a line says, without the signs and labels that are ours.
  function said(fragment) {
    fragment.querySelectorAll(".cr > summary, th, td > code").forEach((ours) => ours.remove());
    fragment.querySelectorAll(".l > b, :scope > b").forEach((sign) => sign.remove());
    return fragment.textContent;
  }
  function textOf(line) {
    const copy = line.cloneNode(true);
    copy.querySelectorAll(":scope > b").forEach((sign) => sign.remove());
    if (copy.matches("tr")) return [...copy.querySelectorAll("td")].map((cell) => said(cell)).filter(Boolean).join(" ");
    return said(copy);
  }

  function place(line, first, last) {
    const holder = holderOf(line);
    if (!holder) return null;
    const where = { part: "none", item: 0, line_start: first, line_end: last };
    const data = holder.dataset;
    if (data.step) return { ...where, kind: "step", target: data.step, part: data.part, item: Number(data.item) };
    if ("instruction" in data) return { ...where, kind: "instruction", target: "" };
    if (!data.root) return null;
    return data.root === "reference" ? { ...where, kind: "reference", target: data.path } : { ...where, kind: "file", target: `${data.root}/${data.path}` };
  }

  // A quote that ends within a word, a number or an operator is none: the check would refuse it. "" where all is one.
  function cut(text) {
    if (text.length <= LONGEST) return text;
    const piece = text.slice(0, LONGEST);
    return /\s/.test(text[LONGEST]) ? piece : piece.replace(/[^\s"'`;()[\]{}]*$/, "").trimEnd();
  }

  function whole(line) {
    const number = numberOf(line);
    const found = place(line, number, number);
    return found && { ...found, quote: cut(textOf(line).trim()) };
  }

  // The selection, widened to whole words, over lines that follow on each other.
  function selected() {
    const selection = getSelection();
    if (!selection.rangeCount || selection.isCollapsed) return null;
    const range = selection.getRangeAt(0);
    const first = lineOf(range.startContainer);
    if (!first || !root.querySelector("#work").contains(first)) return null;
    const all = [...holderOf(first)?.querySelectorAll(LINE) ?? []];
    const lines = [];
    for (let at = all.indexOf(first); at >= 0 && at < all.length && range.intersectsNode(all[at]); at += 1) {
      if (lines.length && numberOf(all[at]) !== numberOf(lines.at(-1)) + 1) break;
      lines.push(all[at]);
    }
    const texts = lines.map((line) => within(range, line)).filter((text, at) => text.trim() || at === 0);
    const quote = cut(texts.join("\n").trim());
    if (quote.replace(/\s/g, "").length < SHORTEST) return whole(first);
    const found = place(first, numberOf(first), numberOf(lines[texts.length - 1] ?? first));
    return found && { ...found, quote };
  }

  function within(range, line) {
    const text = textOf(line);
    const part = (end) => {
      const piece = document.createRange();
      piece.selectNodeContents(line);
      piece.setEnd(range[`${end}Container`], range[`${end}Offset`]);
      return said(piece.cloneContents()).length;
    };
    let from = line.contains(range.startContainer) ? part("start") : 0;
    let to = line.contains(range.endContainer) ? part("end") : text.length;
    if (to === 0 && !line.contains(range.startContainer)) return "";
    while (from > 0 && /\S/.test(text[from - 1]) && /\S/.test(text[from] ?? " ")) from -= 1;
    while (to < text.length && /\S/.test(text[to]) && /\S/.test(text[to - 1] ?? " ")) to += 1;
    return text.slice(from, to);
  }

  // A step by itself is cited by the first line of what its tool gave back, else of its call, else of its message.
  function ofStep(element) {
    for (const part of ["observation", "action", "message"]) {
      for (const line of element.querySelectorAll(`.lines[data-part="${part}"] .l[data-n]`)) {
        if (textOf(line).trim()) return whole(line);
      }
    }
    return null;
  }

  function cite() {
    const here = panel();
    const line = [picked, here.querySelector("#cite:not([data-passed])")].find((mark) => mark?.isConnected && here.contains(mark) && inSight(mark));
    const chosen = here.id === "panel-steps" ? chosenStep(here) : null;
    const found = selected() ?? (line ? whole(lineOf(line)) : chosen && ofStep(chosen));
    if (!found?.quote) {
      const none = `Nothing can be quoted there: it is empty, or a word without end of more than ${LONGEST} characters. Cite another line.`;
      say(found ? none : "Select a step, a line or some text first.");
      return;
    }
    const same = (item) => item.kind === found.kind && item.target === found.target && item.line_start === found.line_start && item.quote === found.quote;
    if (items.some(same)) { say("That is cited already."); return; }
    items.push(found);
    render();
    changed();
    getSelection().removeAllRanges();
    answered(form.querySelector("#q-evidence"));
    say(`Cited ${words(found)}`);
  }

  const inSight = (element) => {
    const box = element.getBoundingClientRect();
    return box.height > 0 && box.bottom > 0 && box.top < innerHeight;
  };
  const chosenStep = (here) => [here.querySelector(".step.here"), step()].find((found) => found && inSight(found));

  // --- picking a line

  function pick(line) {
    picked?.classList.remove("picked");
    picked = line;
    line?.classList.add("picked");
  }

  function move(by) {
    const here = panel();
    const scope = here.id === "panel-steps" ? chosenStep(here) ?? here : here;
    const lines = [...scope.querySelectorAll(LINE)].filter((line) => line.getClientRects().length);
    if (!lines.length) return;
    const at = lines.indexOf(picked);
    const next = at < 0 ? (by > 0 ? 0 : lines.length - 1) : Math.min(Math.max(at + by, 0), lines.length - 1);
    pick(lines[next]);
    lines[next].scrollIntoView({ block: "nearest" });
    form.querySelector("#line-said").textContent = textOf(lines[next]).slice(0, 120);
  }

  root.querySelector("#work").addEventListener("click", (event) => {
    const line = lineOf(event.target);
    if (line && !event.target.closest("a, button, summary") && getSelection().isCollapsed) pick(line);
  }, { signal });
  form.querySelector("#cite-now").addEventListener("click", cite, { signal });
  // The button would take the selection away.
  form.querySelector("#cite-now").addEventListener("pointerdown", (event) => event.preventDefault(), { signal });

  // Whoever goes on to another step has left the line that was found before.
  function unpick() {
    pick(null);
    root.querySelector("#work #cite")?.setAttribute("data-passed", "");
  }

  render();
  return { cite, move, unpick };
}
