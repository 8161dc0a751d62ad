// SPDX-License-Identifier: Apache-2.0
//
// Whether a template loops over the content of messages, by the rules of vLLM, mistakes included.
// Names are compared without regard to scopes.  `messages`, the names it is assigned to, and slices
// and filters of those are messages; the variable of a loop over them is a message.  The search is
// for a loop over a message's `content`, or over anything that is called content.  vLLM gives up,
// with the result no, where a loop or an assignment that matters has several targets.

#include "base/base.h"
#include "template/ast_internal.h"

// Takes slices, filters and tests off: x[1:] | list | reverse.
static const struct expression *core_of(const struct expression *expression)
{
    ASSERT(expression != NULL);
    for (;;) {
        switch (expression->kind) {
        case EXPRESSION_FILTER:
        case EXPRESSION_TEST:
        case EXPRESSION_IS_DEFINED:
        case EXPRESSION_IS_UNDEFINED:
        case EXPRESSION_SLICE:
            expression = expression->first;
            break;
        default:
            return expression;
        }
    }
}

static bool is_messages(const struct expression *expression)
{
    const struct expression *core = core_of(expression);
    return core->kind == EXPRESSION_NAME && core->name->is_of_messages;
}

static bool is_content(const struct expression *expression)
{
    const struct expression *core = core_of(expression);
    if (core->kind != EXPRESSION_ATTRIBUTE && core->kind != EXPRESSION_ITEM) {
        return expression->kind == EXPRESSION_NAME && slice_is(expression->name->text, "content");
    }
    return slice_is(core->call.member->name, "content") && core->first->kind == EXPRESSION_NAME &&
           core->first->name->is_message;
}

// Marks the names that messages are assigned to, until there are no more.
static bool mark_messages(const struct statement *assignments)
{
    bool found = true;
    while (found) {
        found = false;
        for (const struct statement *set = assignments; set != NULL; set = set->next_alike) {
            if (!is_messages(set->set.value)) {
                continue;
            }
            if (set->set.target->kind != TARGET_NAME) {
                return false;
            }
            struct name *name = set->set.target->name->name;
            found |= !name->is_of_messages;
            name->is_of_messages = true;
        }
    }
    return true;
}

bool template_has_content_loop(struct name *messages, const struct statement *loops,
                               const struct statement *assignments)
{
    ASSERT(messages != NULL);
    messages->is_of_messages = true;
    if (!mark_messages(assignments)) {
        return false;
    }
    for (const struct statement *loop = loops; loop != NULL; loop = loop->next_alike) {
        if (is_messages(loop->loop.items)) {
            if (loop->loop.target->kind != TARGET_NAME) {
                return false;
            }
            loop->loop.target->name->name->is_message = true;
        }
    }
    for (const struct statement *loop = loops; loop != NULL; loop = loop->next_alike) {
        if (is_content(loop->loop.items)) {
            return loop->loop.target->kind == TARGET_NAME;
        }
    }
    return false;
}
