// SPDX-License-Identifier: Apache-2.0
//
// Before the first paint: the colours that the reader chose, if not the system's.
"use strict";

const THEME_KEY = "warmpath.theme";
const THEMES = ["auto", "light", "dark"];

function currentTheme() {
  const kept = localStorage.getItem(THEME_KEY);
  return THEMES.includes(kept) ? kept : "auto";
}

function applyTheme(theme) {
  localStorage.setItem(THEME_KEY, theme);
  document.documentElement.dataset.theme = theme;
}

applyTheme(currentTheme());
