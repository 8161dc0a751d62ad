// SPDX-License-Identifier: Apache-2.0

#include "admin/decisions_api.h"

#include "admin/decision_list.h"
#include "admin/query.h"
#include "base/base.h"
#include "config/config.h"

enum {
    limit_default = 100,
    id_size_max = 4096, // of a whole target
};

struct admin_result decisions_api_list(const struct admin_call *call, struct json_writer *json)
{
    struct slice target = call->request->target;
    struct decision_query query;
    struct decision_list list;
    uint64_t limit;

    if (!query_number(target, "limit", limit_default, &limit) || limit > decision_list_max ||
        !query_number(target, "since", 0, &query.since)) {
        return admin_refuse(call, HTTP_PROBLEM_BAD_QUERY,
                            "limit is a number up to 1000, since is a serial");
    }
    query.limit = (uint32_t)limit;
    return decision_list_put(call->options, &query, &list, json) ? admin_done(200)
                                                                 : admin_refuse_memory(call);
}

static const char *decisions_api_why_not_found(const struct admin_options *options)
{
    if (admin_scribe(options) == NULL) {
        return "decisions are not kept, since requests are not counted (metrics.enabled)";
    }
    return (*options->config)->decisions.keep == 0 ? "decisions are not kept (decisions.keep)"
                                                   : "no decision of that request id is kept";
}

static struct admin_result decisions_api_put(const struct admin_call *call, struct slice encoded_id,
                                             struct json_writer *json)
{
    uint8_t id_space[id_size_max];
    struct slice id;

    if (!query_decode(encoded_id, id_space, sizeof(id_space), &id)) {
        return admin_refuse(call, HTTP_PROBLEM_BAD_QUERY, "a % without two hexadecimal digits");
    }
    if (!decision_list_find(call->options, id, json)) {
        return admin_refuse(call, HTTP_PROBLEM_NOT_FOUND,
                            decisions_api_why_not_found(call->options));
    }
    return admin_done(200);
}

struct admin_result decisions_api_show(const struct admin_call *call, struct json_writer *json)
{
    return decisions_api_put(call, call->name, json);
}

struct admin_result decisions_api_find(const struct admin_call *call, struct json_writer *json)
{
    struct slice encoded_id;

    if (query_find(call->request->target, "id", &encoded_id) && encoded_id.size > 0) {
        return decisions_api_put(call, encoded_id, json);
    }
    return admin_refuse(call, HTTP_PROBLEM_BAD_QUERY, "give ?id=REQUEST-ID, or POST a request");
}
