// SPDX-License-Identifier: Apache-2.0

#include "feed/models_list.h"

#include "base/base.h"
#include "fleet/fleet.h"
#include "json/json.h"

#include <stdlib.h>

// Copies into list->memory with a NUL behind.
static const char *models_list_keep(char **at, struct slice text)
{
    char *copy = *at;
    memmove(copy, text.bytes, text.size); // a decoded name is there already
    copy[text.size] = '\0';
    *at += text.size + 1;
    return copy;
}

static void models_list_take(struct models_list *list, struct slice document, char **at)
{
    enum { ID, PARENT, OWNER, STATUS };
    static const char *const names[] = {
        [ID] = "id", [PARENT] = "parent", [OWNER] = "owned_by", [STATUS] = "status"};
    struct json_value found[ARRAY_COUNT(names)] = {0};
    struct slice name = {0};

    if (list->count == models_list_count_max ||
        json_find(document, names, ARRAY_COUNT(names), found) != STATUS_OK ||
        found[ID].kind != JSON_STRING ||
        json_string_decode(found[ID].raw, *at, found[ID].raw.size, &name) != STATUS_OK ||
        name.size == 0 || memchr(name.bytes, '\0', name.size) != NULL) {
        return;
    }
    // Written as a document of ours, so no byte of it may be a NUL; JSON has none outside strings
    // and the scanner refuses them inside.
    const char *kept_name = models_list_keep(at, name);
    list->models[list->count++] = (struct fleet_model){
        .name = kept_name,
        .document = models_list_keep(at, document),
        .is_adapter = found[PARENT].kind == JSON_STRING,
        // In its router mode llama-server reads the name, and lists each model with its status.
        .ignores_name = json_is_string(&found[OWNER], "llamacpp") && json_is_unset(&found[STATUS])};
}

enum status models_list_read(struct slice body, struct models_list *out)
{
    static const char *const names[] = {"data"};
    struct json_value data[1] = {0};

    if (json_find(body, names, 1, data) != STATUS_OK || data[0].kind != JSON_ARRAY) {
        return STATUS_MALFORMED;
    }
    struct models_list list = {
        .models = calloc(models_list_count_max, sizeof(struct fleet_model)),
        // A name is shorter than its document, and each of the two ends with a NUL.
        .memory = malloc(2 * data[0].raw.size + 2),
    };
    if (list.models == NULL || list.memory == NULL) {
        models_list_free(&list);
        return STATUS_EXHAUSTED;
    }
    char *at = list.memory;
    struct json json = json_inside(data[0].raw);
    struct json_item item;
    while (json_next_whole(&json, &item)) {
        if (item.value.kind == JSON_OBJECT) {
            models_list_take(&list, item.value.raw, &at);
        }
    }
    ASSERT(json_close(&json) == STATUS_OK); // json_find has read all of it
    *out = list;
    return STATUS_OK;
}

void models_list_free(struct models_list *list)
{
    free(list->models);
    free(list->memory);
    *list = (struct models_list){0};
}
