// SPDX-License-Identifier: Apache-2.0

#include "api/body_edit.h"

#include "base/base.h"

void body_edits_add(struct body_edits *edits, size_t at, size_t over, struct slice text)
{
    ASSERT(edits->count < body_edit_max);

    uint32_t i = edits->count++;
    for (; i > 0 && edits->all[i - 1].at > at; i--) {
        edits->all[i] = edits->all[i - 1];
    }
    edits->all[i] = (struct body_edit){.at = at, .over = over, .text = text};
    ASSERT(i == 0 || edits->all[i - 1].at + edits->all[i - 1].over <= at);
    ASSERT(i + 1 == edits->count || at + over <= edits->all[i + 1].at);
}

size_t body_edits_size(const struct body_edits *edits, size_t body_size)
{
    for (uint32_t i = 0; i < edits->count; i++) {
        body_size += edits->all[i].text.size - edits->all[i].over;
    }
    return body_size;
}

uint32_t body_edits_parts(const struct body_edits *edits, struct slice body,
                          struct slice parts[body_part_max])
{
    uint32_t count = 0;
    size_t from = 0;

    for (uint32_t i = 0; i < edits->count; i++) {
        const struct body_edit *edit = &edits->all[i];
        ASSERT(edit->at >= from && edit->at + edit->over <= body.size);
        parts[count++] = slice_of(body.bytes + from, edit->at - from);
        parts[count++] = edit->text;
        from = edit->at + edit->over;
    }
    parts[count++] = slice_of(body.bytes + from, body.size - from);
    return count;
}
