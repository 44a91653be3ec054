// Where one form has several buttons, Enter in a field presses the button of the field's own part (data-enter), and not
// whichever button comes first. Without this script Enter presses the first one, which loses nothing.

document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.isComposing || !(event.target instanceof HTMLInputElement)) return;
  const button = event.target.closest("[data-enter]")?.querySelector("button");
  if (!button) return;
  event.preventDefault();
  button.click();
});
