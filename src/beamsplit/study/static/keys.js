// A or B goes to a list's button; Enter, as ever, presses it. Everything works without this.
"use strict";
const buttons = new Map(
  [...document.querySelectorAll("button[data-key]")].map((button) => [button.dataset.key.toLowerCase(), button]),
);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const button = buttons.get(event.key.toLowerCase());
  if (button) {
    button.focus();
    event.preventDefault();
  }
});
const hint = document.getElementById("keys");
if (hint && matchMedia("(hover: hover)").matches) hint.hidden = false;
