// SPDX-License-Identifier: Apache-2.0
//
// For any input: a list is read exactly if the document has an array of `data`; every model has a
// name, and a document that is part of the input and contains that name; and a list made of these
// documents alone is read as the same list.

#include "base/base.h"
#include "base/text.h"
#include "feed/models_list.h"
#include "fleet/fleet.h"
#include "fuzz.h"
#include "json/json.h"

#include <stdlib.h>

static bool has_list(struct slice body)
{
    static const char *const names[] = {"data"};
    struct json_value data[1] = {0};
    return json_find(body, names, 1, data) == STATUS_OK && data[0].kind == JSON_ARRAY;
}

static void check_model(struct slice body, const struct fleet_model *model)
{
    static const char *const names[] = {"id"};
    struct slice document = slice_str(model->document);
    struct json_value id[1] = {0};

    ASSERT(model->name[0] != '\0');
    ASSERT(memmem(body.bytes, body.size, document.bytes, document.size) != NULL);
    ASSERT(json_find(document, names, 1, id) == STATUS_OK);
    ASSERT(id[0].kind == JSON_STRING && json_string_is(id[0].raw, model->name));
}

static void check_again(struct slice body, const struct models_list *list)
{
    size_t capacity = body.size + list->count + 32;
    uint8_t *space = malloc(capacity);
    ASSERT(space != NULL);
    struct text text = text_over(space, capacity);
    struct models_list again;

    text_add_str(&text, "{\"data\":[");
    for (uint32_t i = 0; i < list->count; i++) {
        text_add_str(&text, i > 0 ? "," : "");
        text_add_str(&text, list->models[i].document);
    }
    text_add_str(&text, "]}");
    ASSERT(!text.overflow);
    ASSERT(models_list_read(text_slice(&text), &again) == STATUS_OK);
    ASSERT(again.count == list->count);
    for (uint32_t i = 0; i < list->count; i++) {
        ASSERT(strcmp(again.models[i].name, list->models[i].name) == 0);
        ASSERT(strcmp(again.models[i].document, list->models[i].document) == 0);
        ASSERT(again.models[i].is_adapter == list->models[i].is_adapter);
        ASSERT(again.models[i].ignores_name == list->models[i].ignores_name);
    }
    models_list_free(&again);
    free(space);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct models_list list = {0};
    uint8_t *copy = malloc(size > 0 ? size : 1);
    ASSERT(copy != NULL);
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    struct slice body = slice_of(copy, size);
    enum status status = models_list_read(body, &list);

    ASSERT(status == (has_list(body) ? STATUS_OK : STATUS_MALFORMED));
    ASSERT(status == STATUS_OK || list.memory == NULL);
    for (uint32_t i = 0; i < list.count; i++) {
        check_model(body, &list.models[i]);
    }
    if (status == STATUS_OK) {
        check_again(body, &list);
        models_list_free(&list);
    }
    free(copy);
    return 0;
}
