// SPDX-License-Identifier: Apache-2.0
//
// restart.h -- the options that differ between two configurations and that a reload cannot apply.
#pragma once

struct config;
struct text;

// Appends the names of such options, separated by ", ".  Appends nothing if a reload applies all
// changes.
void config_restart_add(const struct config *old, const struct config *changed, struct text *names);
