// The server's key: asked for where there is one, kept in this tab, sent with each request.

const KEPT = "tvm_hetero.key";

/** Headers that show the key, if there is one. */
export function authorization() {
  const key = sessionStorage.getItem(KEPT);
  return key === null ? {} : { Authorization: `Bearer ${key}` };
}

/** Ask for the key; resolves when one was given. */
export function askForKey(form) {
  const [input, wrong] = [form.querySelector("input"), form.querySelector(".wrong")];
  wrong.textContent = sessionStorage.getItem(KEPT) === null ? "" : "The server does not know this key.";
  sessionStorage.removeItem(KEPT);
  form.hidden = false;
  input.value = "";
  input.focus();
  return new Promise((resolve) => {
    form.addEventListener(
      "submit",
      (event) => {
        event.preventDefault();
        sessionStorage.setItem(KEPT, input.value.trim());
        form.hidden = true;
        resolve();
      },
      { once: true },
    );
  });
}
