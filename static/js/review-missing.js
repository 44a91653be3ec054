// What an answer lacks: said where it is missing until something is given there.

// What is missing says so where it is missing, and the first of it gets the focus: in it, where it is a text to write.
export function mark(form, fields) {
  for (const question of form.querySelectorAll(".question")) {
    const name = question.id.slice(2);
    question.toggleAttribute("data-wrong", name in fields);
    const words = form.querySelector(`#wrong-${name}`);
    if (words) words.textContent = fields[name] ?? "";
  }
  const first = form.querySelector(".question[data-wrong]");
  if (!first) return;
  const place = first.querySelector(":scope > textarea") ?? first;
  if (place === first) first.tabIndex = -1;
  place.setAttribute("aria-describedby", `wrong-${first.id.slice(2)}`);
  first.scrollIntoView({ block: "center" });
  place.focus({ preventScroll: true });
}

// What was missing there is no longer said to be.
export function answered(question) {
  question?.removeAttribute("data-wrong");
  question?.querySelector(":scope > .errorlist")?.replaceChildren();
}
