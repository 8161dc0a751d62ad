// SPDX-License-Identifier: Apache-2.0
//
// The page's small tools: elements, questions, notices.

export const find = (selector, root = document) => root.querySelector(selector);

// make("td.number", {title: "…"}, "text", child)
export function make(name, attributes, ...children) {
  const [tag, ...classes] = name.split(".");
  const node = document.createElement(tag);
  node.classList.add(...classes);
  for (const [key, value] of Object.entries(attributes ?? {})) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

export function picture(name, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// Equal text is not written again: the browser has nothing to do, and a selection stays.
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function mark(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

// A bar of a share of its width.
export function stretch(node, share) {
  const width = `${Math.round(Math.min(1, Math.max(0, share ?? 0)) * 1000) / 10}%`;
  if (node.style.width !== width) node.style.width = width;
}

// Makes `nodes` the children of `parent`, in order; nodes in place are not touched, so focus stays.
export function arrange(parent, nodes) {
  const wanted = new Set(nodes);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  nodes.forEach((node, at) => {
    if (parent.children[at] !== node) parent.insertBefore(node, parent.children[at] ?? null);
  });
}

// Calls once in the next frame, however often it was asked to.
export function oncePerFrame(draw) {
  let waits = false;
  return () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => {
      waits = false;
      draw();
    });
  };
}

let settleQuestion = () => {};

function questionClosed() {
  if (!find("#ask").open) settleQuestion();
}

// A question with a number in its answer, or without; null when it was called off.
export function ask({ title, text, action, number }) {
  const dialog = find("#ask");
  const form = find("form", dialog);
  settleQuestion(); // of the question before, if its close event has not come yet
  write(find("h2", dialog), title);
  write(find("p", dialog), text);
  write(find("[value=yes]", dialog), action);
  find("label", dialog).hidden = number === undefined;
  form.elements.number.disabled = number === undefined;
  form.elements.number.value = number ?? "";
  dialog.returnValue = "";
  dialog.showModal();
  (number === undefined ? find("[value=yes]", dialog) : form.elements.number).focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", questionClosed);
    settleQuestion = () => {
      resolve(dialog.returnValue === "yes" ? Number(form.elements.number.value) : null);
    };
  });
}

let noticeTimer = 0;

export function notify(text, kind = "good") {
  const notice = find("#notice");
  notice.dataset.kind = kind;
  write(notice, text);
  notice.classList.add("shown");
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => notice.classList.remove("shown"), 6000);
}
