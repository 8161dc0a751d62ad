// SPDX-License-Identifier: Apache-2.0

#include "admin/decisions_api.h"

#include "admin/admin.h"
#include "admin/admin_call.h"
#include "admin/decision_list.h"
#include "admin/query.h"
#include "base/base.h"
#include "config/config.h"
#include "json/json_writer.h"

enum {
    limit_unsaid = 100,
    id_size_max = 4096, // of a whole target
    document_size_max = 64 << 10,
};

// False: a value is not a number, or the limit is too large.
static bool read_decision_query(const struct admin_call *call, struct decision_query *query)
{
    struct slice target = call->request->target;
    uint64_t limit;

    if (!query_number(target, "limit", limit_unsaid, &limit) || limit > decision_list_max ||
        !query_number(target, "since", 0, &query->since)) {
        return false;
    }
    query->limit = (uint32_t)limit;
    return true;
}

static void write_decisions(const struct admin_call *call, struct json_writer *json)
{
    struct decision_query query;
    uint64_t serial;

    if (read_decision_query(call, &query)) {
        decision_list_put(call->options, &query, &serial, json);
    }
}

void decisions_api_list(const struct admin_call *call)
{
    struct decision_query query;

    if (read_decision_query(call, &query)) {
        admin_call_written(call, 200, write_decisions);
    } else {
        admin_call_problem(call, HTTP_PROBLEM_BAD_QUERY,
                           "limit is a number up to 1000, since is a serial");
    }
}

static const char *why_not_found(const struct admin_options *options)
{
    if (options->scribe == NULL || *options->scribe == NULL) {
        return "none is kept, since requests are not counted (metrics.enabled)";
    }
    return (*options->config)->decisions.keep == 0 ? "none is kept (decisions.keep)"
                                                   : "no decision of that request id is kept";
}

static void show_decision(const struct admin_call *call, struct slice spelt)
{
    uint8_t id_space[id_size_max];
    uint8_t space[document_size_max];
    struct text text = text_over(space, sizeof(space));
    struct json_writer json = json_writer_over(&text);
    struct slice id;

    if (!query_decode(spelt, id_space, sizeof(id_space), &id)) {
        admin_call_problem(call, HTTP_PROBLEM_BAD_QUERY, "a % that is not of %XX");
    } else if (!decision_list_find(call->options, id, &json)) {
        admin_call_problem(call, HTTP_PROBLEM_NOT_FOUND, why_not_found(call->options));
    } else {
        ASSERT(!text.overflow);
        admin_call_document(call, 200, text_slice(&text));
    }
}

void decisions_api_show(const struct admin_call *call)
{
    show_decision(call, call->name);
}

void decisions_api_find(const struct admin_call *call)
{
    struct slice spelt;

    if (query_find(call->request->target, "id", &spelt) && spelt.size > 0) {
        show_decision(call, spelt);
    } else {
        admin_call_problem(call, HTTP_PROBLEM_BAD_QUERY,
                           "say which: ?id=REQUEST-ID; or POST a request");
    }
}
