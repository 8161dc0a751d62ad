// SPDX-License-Identifier: Apache-2.0

#include "admin/decision_list.h"

#include "admin/admin.h"
#include "admin/document/decision_json.h"
#include "base/base.h"
#include "base/text.h"
#include "scribe/scribe.h"

#include <stdlib.h>

// One that was copied; its receipt lies behind it.
struct copy {
    struct chronicle_decision decision;
    _Alignas(uint64_t) uint8_t receipt[receipt_size_max];
};

static struct scribe *scribe_of(const struct admin_options *options)
{
    return options->scribe != NULL ? *options->scribe : NULL;
}

static void keep(struct copy *copy, const struct chronicle_decision *decision)
{
    copy->decision = *decision;
    memcpy(copy->receipt, decision->receipt, receipt_size(decision->receipt));
    copy->decision.receipt = (const struct receipt *)copy->receipt;
}

// How many; the pages of `copies` that are not needed are not touched.
static uint32_t copy_list(struct scribe *scribe, const struct decision_query *query,
                          struct copy *copies, uint64_t *serial)
{
    struct chronicle_decision *found = calloc(decision_list_max, sizeof(*found));
    ASSERT(found != NULL);
    const struct chronicle *chronicle = scribe_lock(scribe);
    *serial = chronicle_decisions(chronicle, 0, found, 1) == 1 ? found[0].serial : 0;
    uint32_t count = chronicle_decisions(chronicle, query->since, found, query->limit);
    for (uint32_t i = 0; i < count; i++) {
        keep(&copies[i], &found[i]);
    }
    scribe_unlock(scribe);
    free(found);
    return count;
}

uint32_t decision_list_add(const struct admin_options *options, const struct decision_query *query,
                           uint64_t *serial, struct text *json)
{
    struct scribe *scribe = scribe_of(options);
    struct copy *copies = malloc(decision_list_max * sizeof(*copies));
    uint32_t count = 0;

    ASSERT(copies != NULL && query->limit <= decision_list_max);
    *serial = 0;
    if (scribe != NULL) {
        count = copy_list(scribe, query, copies, serial);
    }
    text_add_format(json, "{\"serial\":%lu,\"decisions\":[", (unsigned long)*serial);
    for (uint32_t i = 0; i < count; i++) {
        text_add_str(json, i > 0 ? "," : "");
        decision_json_add(&copies[i].decision, options->fleet, json);
    }
    text_add_str(json, "]}");
    free(copies);
    return count;
}

bool decision_list_find(const struct admin_options *options, struct slice id, struct text *json)
{
    struct scribe *scribe = scribe_of(options);
    struct chronicle_decision decision;
    struct copy copy;

    if (scribe == NULL) {
        return false;
    }
    bool is_kept = chronicle_find(scribe_lock(scribe), id, &decision);
    if (is_kept) {
        keep(&copy, &decision);
    }
    scribe_unlock(scribe);
    if (is_kept) {
        decision_json_add(&copy.decision, options->fleet, json);
    }
    return is_kept;
}
