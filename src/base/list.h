// SPDX-License-Identifier: Apache-2.0
//
// list.h -- intrusive lists: a member keeps the address of the pointer to it, so it leaves in
// constant time without knowing its list.
//
//     head -> [ next | link ] -> [ next | link ] -> NULL
//      ^________________/  ^_____________/
//
// A zeroed node is in no list.  One owner; the node must leave before its memory goes.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct list_node {
    struct list_node *next;
    struct list_node **link; // the pointer to this node; NULL: in no list
};

static inline bool list_has(const struct list_node *node)
{
    return node->link != NULL;
}

static inline void list_push(struct list_node **head, struct list_node *node)
{
    node->next = *head;
    node->link = head;
    if (*head != NULL) {
        (*head)->link = &node->next;
    }
    *head = node;
}

// Does nothing to a node that is in no list.
static inline void list_remove(struct list_node *node)
{
    if (node->link == NULL) {
        return;
    }
    *node->link = node->next;
    if (node->next != NULL) {
        node->next->link = node->link;
    }
    node->next = NULL;
    node->link = NULL;
}

// Moves a whole list to another head, which must be empty.
static inline void list_move(struct list_node **from, struct list_node **to)
{
    *to = *from;
    *from = NULL;
    if (*to != NULL) {
        (*to)->link = to;
    }
}
