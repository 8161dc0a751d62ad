// SPDX-License-Identifier: Apache-2.0

#include "admin/decision_list.h"

#include "admin/admin.h"
#include "admin/document/decision_json.h"
#include "base/base.h"
#include "json/json_writer.h"
#include "scribe/scribe.h"

#include <stdlib.h>

// A decision and its receipt, copied out of the chronicle.
struct decision_copy {
    struct chronicle_decision decision;
    _Alignas(uint64_t) uint8_t receipt[receipt_size_max];
};

static void decision_copy(struct decision_copy *copy, const struct chronicle_decision *decision)
{
    copy->decision = *decision;
    memcpy(copy->receipt, decision->receipt, receipt_size(decision->receipt));
    copy->decision.receipt = (const struct receipt *)copy->receipt;
}

// Pages of `copies` and `found` that are not needed stay untouched.
static void decision_copy_list(struct scribe *scribe, const struct decision_query *query,
                               struct chronicle_decision *found, struct decision_copy *copies,
                               struct decision_list *out)
{
    const struct chronicle *chronicle = scribe_lock(scribe);
    out->serial = chronicle_decisions(chronicle, 0, found, 1) == 1 ? found[0].serial : 0;
    out->count = chronicle_decisions(chronicle, query->since, found, query->limit);
    for (uint32_t i = 0; i < out->count; i++) {
        decision_copy(&copies[i], &found[i]);
    }
    scribe_unlock(scribe);
}

bool decision_list_put(const struct admin_options *options, const struct decision_query *query,
                       struct decision_list *out, struct json_writer *json)
{
    struct scribe *scribe = admin_scribe(options);
    struct chronicle_decision *found = calloc(decision_list_max, sizeof(*found));
    struct decision_copy *copies = malloc(decision_list_max * sizeof(*copies));

    ASSERT(query->limit <= decision_list_max);
    *out = (struct decision_list){0};
    if (found == NULL || copies == NULL) {
        free(found);
        free(copies);
        return false;
    }
    if (scribe != NULL) {
        decision_copy_list(scribe, query, found, copies, out);
    }
    free(found);
    json_begin_object(json, NULL);
    json_put_u64(json, "serial", out->serial);
    json_begin_array(json, "decisions");
    for (uint32_t i = 0; i < out->count; i++) {
        decision_json_put(&copies[i].decision, options->fleet, json);
    }
    json_end(json);
    json_end(json);
    free(copies);
    return true;
}

bool decision_list_find(const struct admin_options *options, struct slice id,
                        struct json_writer *json)
{
    struct scribe *scribe = admin_scribe(options);
    struct chronicle_decision decision;
    struct decision_copy copy;

    if (scribe == NULL) {
        return false;
    }
    bool is_kept = chronicle_find(scribe_lock(scribe), id, &decision);
    if (is_kept) {
        decision_copy(&copy, &decision);
    }
    scribe_unlock(scribe);
    if (is_kept) {
        decision_json_put(&copy.decision, options->fleet, json);
    }
    return is_kept;
}
