// SPDX-License-Identifier: Apache-2.0
//
// yaml_tree.h -- a YAML text as nodes with positions.  The door to libyaml.
//
//     limits:            map ── key "limits" ── value: map ── key "body_size" ── value: "8m"
//       body_size: 8m
//
// Only what a configuration needs is let through: one document of maps, lists and text, at most 16
// deep.  Anchors, aliases, tags and keys that are no text are refused where they stand.  Keys may
// repeat here; the binder, which knows the keys, refuses repetitions.
#pragma once

#include "base/slice.h"
#include "base/status.h"

struct config_error;
struct config_memory;

enum { config_yaml_depth_max = 16 };

enum config_node_kind { CONFIG_NODE_TEXT, CONFIG_NODE_LIST, CONFIG_NODE_MAP };

struct config_node {
    enum config_node_kind kind;
    uint32_t line; // 1-based, as is column, which counts characters
    uint32_t column;
    uint32_t count;            // items of a list, keys of a map
    const char *text;          // ends in NUL and has none inside; NULL for lists and maps
    bool is_blank;             // no value was written: `key:`
    struct config_node *first; // item, or key
    struct config_node *next;
    struct config_node *value; // of a key
};

// `*out` is NULL for a document without content.  On failure `error` has line, column and text, and
// `*out` is untouched.  STATUS_TOO_LARGE: `memory` is full.  Nodes and texts live in `memory`.
enum status config_yaml_read(struct slice yaml, struct config_memory *memory,
                             struct config_node **out, struct config_error *error);
