// A form with a file is sent with its progress shown; without scripts it is sent as any other form.
import { failed } from "./failed.js";

const form = document.querySelector("form[data-upload]");
const part = (selector) => form.querySelector(selector); // looked up anew: a refused form replaces its parts
const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

form.addEventListener("submit", (event) => {
  const file = part("input[type=file][name=upload]").files[0];
  if (!file) return;
  event.preventDefault();
  const request = new XMLHttpRequest();
  request.open("POST", location.href);
  request.setRequestHeader("HX-Request", "true");
  request.upload.addEventListener("progress", ({ loaded, total }) => {
    part("progress").max = total;
    part("progress").value = loaded;
    part(".upload-progress strong").textContent = loaded < total ? `${megabytes(loaded)} of ${megabytes(total)}` : "Stored; opening its import …";
  });
  request.addEventListener("load", () => {
    const address = request.getResponseHeader("HX-Redirect");
    if (address) location.assign(address);
    else if (request.status === 422) show(request.responseText);
    else fail(failed(request.status));
  });
  request.addEventListener("error", () => fail("The server could not be reached, or the file is larger than it takes."));
  part(".upload-progress").hidden = false;
  part("button[type=submit]").disabled = true;
  request.send(new FormData(form));
});

function show(html) {
  const page = new DOMParser().parseFromString(html, "text/html");
  form.replaceChildren(...page.querySelector("form[data-upload]").childNodes);
  form.querySelector("[aria-invalid=true], .errorlist")?.scrollIntoView({ block: "center" });
}

function fail(what) {
  part("button[type=submit]").disabled = false;
  part(".upload-progress strong").textContent = `${what} Nothing was imported; try again.`;
}
