// SPDX-License-Identifier: Apache-2.0

#include "audit/audit_verdict.h"

#include "base/base.h"
#include "sim/engine/profile.h"

#include <math.h>

// Where there is little to gain, where there is much, and how far apart TTFTs may be.
static const double hit_rate_high = 0.8;
static const double hit_rate_low = 0.3;
static const double spread_high = 5;

enum {
    // Below it the hundredth part is less than one.
    first_tokens_min = 100,
    // A step of the engine has a floor that a shorter prompt does not fill; others share it.
    profile_tokens_min = 512,
    month_s = 30 * 24 * 3600,
};

static bool is_idle(const struct audit_result *result)
{
    const struct audit_figures *fleet = &result->fleet;
    return fleet->requests <= 0 && fleet->prompt_tokens <= 0 && fleet->computed_tokens <= 0;
}

static bool is_single(const struct audit_result *result)
{
    return result->spread_count <= 1;
}

static bool is_blind(const struct audit_result *result)
{
    return result->fleet.hit_rate < 0;
}

static bool verdict_is_good(const struct audit_result *result)
{
    return result->fleet.hit_rate > hit_rate_high;
}

static bool is_bad(const struct audit_result *result)
{
    return result->fleet.hit_rate < hit_rate_low;
}

static bool is_thrashing(const struct audit_result *result)
{
    const struct audit_figures *fleet = &result->fleet;
    return fleet->first_tokens >= first_tokens_min && fleet->ttft_p50_s > 0 &&
           fleet->ttft_p99_s > spread_high * fleet->ttft_p50_s;
}

static bool is_rest(const struct audit_result *result)
{
    (void)result;
    return true;
}

// The first that applies is the verdict.
static const struct audit_rule rules[] = {
    {"idle", "no request and no prompt in the interval",
     "There was no traffic, so nothing was measured.", false, is_idle},
    {"single", "one replica got all the traffic", "One replica: there is nothing to route.", false,
     is_single},
    {"unknown", "no engine here counts what it finds in its prefix cache",
     "The hit rate is not known, and without it neither is the gain.", false, is_blind},
    {"little", "over 80% of prompt tokens found in a cache",
     "Little to gain: nearly every prompt already meets its prefix.", false, verdict_is_good},
    {"much", "under 30% found, with several replicas",
     "Much to gain, if prompts share prefixes: the same ones are computed on replica after "
     "replica.",
     false, is_bad},
    {"thrashing", "TTFT p99 over 5 times p50, of 100 requests or more",
     "Caches are thrashing, or load is uneven: some requests wait far longer than most.", true,
     is_thrashing},
    {"some", "30% to 80% found", "Some to gain.", false, is_rest},
};

const struct audit_rule *audit_rule_at(uint32_t index)
{
    return index < ARRAY_COUNT(rules) ? &rules[index] : NULL;
}

static double ratio_of(double part, double whole)
{
    return part >= 0 && whole > 0 ? part / whole : -1;
}

// How many were at most `bound`, evenly spread within a bucket.
static double count_below(const struct counter_histogram *histogram, double bound)
{
    double low = 0;
    double count = 0;
    for (uint32_t i = 0; i < histogram->bucket_count; i++) {
        double high = histogram->bounds[i];
        if (bound < high) {
            double share = (bound - low) / (high - low);
            return count + share * (histogram->counts[i] - count);
        }
        low = high;
        count = histogram->counts[i];
    }
    return count;
}

static double count_below_all(const struct audit_replica *replicas, uint32_t replica_count,
                              double bound)
{
    double count = 0;
    for (uint32_t i = 0; i < replica_count; i++) {
        count += count_below(&replicas[i].done.ttft, bound);
    }
    return count;
}

static bool has_ttft(const struct audit_replica *replica)
{
    return replica->why == NULL && replica->done.ttft.bucket_count > 0;
}

// The least bound that holds `wanted` of them.  Engines may have other buckets than their
// neighbours, so it is looked for by halving rather than in one list of buckets.
static double least_bound(const struct audit_replica *replicas, uint32_t replica_count,
                          double highest, double wanted)
{
    double low = 0;
    double high = highest;
    for (uint32_t i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        if (count_below_all(replicas, replica_count, middle) >= wanted) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return high;
}

// `replicas` that were not read have empty histograms.
static void find_ttft(const struct audit_replica *replicas, uint32_t replica_count,
                      struct audit_figures *out)
{
    double count = 0;
    double highest = 0;
    bool is_said = false;
    out->ttft_p50_s = -1;
    out->ttft_p99_s = -1;
    for (uint32_t i = 0; i < replica_count; i++) {
        const struct counter_histogram *ttft = &replicas[i].done.ttft;
        if (has_ttft(&replicas[i])) {
            count += ttft->count;
            highest = fmax(highest, ttft->bounds[ttft->bucket_count - 1]);
            is_said = true;
        }
    }
    out->first_tokens = is_said ? count : -1;
    if (count > 0) {
        out->ttft_p50_s = least_bound(replicas, replica_count, highest, 0.5 * count);
        out->ttft_p99_s = least_bound(replicas, replica_count, highest, 0.99 * count);
        out->ttft_is_beyond = count_below_all(replicas, replica_count, highest) < 0.99 * count;
    }
}

// Over the replicas that report it.
static double verdict_sum_of(const struct audit_replica *replicas, uint32_t replica_count,
                             enum counter counter)
{
    double sum = -1;
    for (uint32_t i = 0; i < replica_count; i++) {
        double value = replicas[i].why == NULL ? replicas[i].done.values[counter] : -1;
        if (value >= 0) {
            sum = sum < 0 ? value : sum + value;
        }
    }
    return sum;
}

static bool tells_hits(const struct audit_replica *replica)
{
    const double *values = replica->done.values;
    return replica->why == NULL && values[COUNTER_ASKED] >= 0 && values[COUNTER_CACHED] >= 0;
}

// Of the replicas that report both.
static double asked_tokens(const struct audit_replica *replicas, uint32_t replica_count,
                           double *cached)
{
    double asked = -1;
    *cached = -1;
    for (uint32_t i = 0; i < replica_count; i++) {
        if (tells_hits(&replicas[i])) {
            const double *values = replicas[i].done.values;
            asked = fmax(asked, 0) + values[COUNTER_ASKED];
            *cached = fmax(*cached, 0) + fmin(values[COUNTER_CACHED], values[COUNTER_ASKED]);
        }
    }
    return asked;
}

static void find_figures(const struct audit_replica *replicas, uint32_t replica_count,
                         struct audit_figures *out)
{
    double cached = 0;
    double asked = asked_tokens(replicas, replica_count, &cached);
    *out = (struct audit_figures){
        .requests = verdict_sum_of(replicas, replica_count, COUNTER_REQUESTS),
        .prompt_tokens = verdict_sum_of(replicas, replica_count, COUNTER_PROMPT),
        .computed_tokens = verdict_sum_of(replicas, replica_count, COUNTER_COMPUTED),
        .hit_rate = ratio_of(cached, asked),
    };
    find_ttft(replicas, replica_count, out);
}

void audit_figures_of(const struct audit_replica *replica, struct audit_figures *out)
{
    find_figures(replica, 1, out);
}

static bool had_traffic(const struct audit_replica *replica)
{
    const double *values = replica->done.values;
    return values[COUNTER_REQUESTS] > 0 || values[COUNTER_PROMPT] > 0 ||
           values[COUNTER_COMPUTED] > 0;
}

static void count_replicas(const struct audit_replica *replicas, struct audit_result *out)
{
    double span_s = 0;
    uint32_t span_count = 0;
    for (uint32_t i = 0; i < out->replica_count; i++) {
        const struct audit_replica *replica = &replicas[i];
        bool is_read = replica->why == NULL;
        bool is_used = is_read && had_traffic(replica);
        out->read_count += is_read;
        out->spread_count += is_used || !is_read;
        out->blind_count += is_used && !tells_hits(replica);
        if (is_read && replica->span_s > 0) {
            span_s += replica->span_s;
            span_count++;
        }
    }
    // Where some do not say since when they count, a rate would be made up.
    out->span_s = span_count > 0 && span_count == out->read_count ? span_s / span_count : -1;
}

static double profile_token_s(const struct profile *model, const struct audit_figures *fleet)
{
    double tokens = ratio_of(fleet->prompt_tokens, fleet->requests);
    tokens = fmin(fmax(tokens, profile_tokens_min), model->context_max);
    double ms = step_prefill_ms(&model->step, 0, (uint32_t)tokens, model->step_tokens);
    return ms / floor(tokens) / 1000;
}

static double counted_token_s(const struct audit_replica *replicas, uint32_t replica_count,
                              bool *is_capped)
{
    double seconds = 0;
    double tokens = 0;
    *is_capped = false;
    for (uint32_t i = 0; i < replica_count; i++) {
        const double *values = replicas[i].done.values;
        double took_s = values[COUNTER_PREFILL_SECONDS];
        if (replicas[i].why != NULL || took_s < 0 || values[COUNTER_COMPUTED] <= 0) {
            continue;
        }
        if (replicas[i].span_s > 0 && took_s > replicas[i].span_s) {
            took_s = replicas[i].span_s;
            *is_capped = true;
        }
        seconds += took_s;
        tokens += values[COUNTER_COMPUTED];
    }
    return seconds > 0 ? ratio_of(seconds, tokens) : -1;
}

static void estimate_waste(const struct audit_replica *replicas, const struct audit_terms *terms,
                           struct audit_result *out)
{
    double cached = 0;
    double asked = asked_tokens(replicas, out->replica_count, &cached);
    double hit_rate = out->fleet.hit_rate;

    out->achievable_is_guess = terms->achievable < 0;
    out->achievable = terms->achievable;
    if (out->achievable_is_guess && hit_rate >= 0) {
        double one_cache = fmin(hit_rate_high, out->spread_count * hit_rate);
        out->achievable = fmax(hit_rate, one_cache);
    }
    out->token_s = terms->model != NULL
                       ? profile_token_s(terms->model, &out->fleet)
                       : counted_token_s(replicas, out->replica_count, &out->token_is_capped);
    if (hit_rate < 0) {
        return;
    }
    out->wasted_tokens = fmax(0, out->achievable - hit_rate) * asked;
    if (out->token_s < 0) {
        return;
    }
    double seconds = out->wasted_tokens * out->token_s;
    out->wasted_gpu_hours = seconds * terms->gpus_per_replica / 3600;
    out->wasted_money = out->wasted_gpu_hours * terms->gpu_hour_price;
    if (out->span_s > 0) {
        out->wasted_share = seconds / (out->span_s * out->read_count);
        out->wasted_money_month = out->wasted_money * month_s / out->span_s;
    }
}

static void apply_rules(struct audit_result *out)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(rules); i++) {
        if (!rules[i].applies(out)) {
            continue;
        }
        if (out->verdict == NULL) {
            out->verdict = &rules[i];
        } else if (rules[i].is_beside) {
            out->also = &rules[i];
        }
    }
}

void audit_judge(const struct audit_replica *replicas, uint32_t replica_count,
                 const struct audit_terms *terms, struct audit_result *out)
{
    *out = (struct audit_result){
        .replica_count = replica_count,
        .wasted_tokens = -1,
        .wasted_gpu_hours = -1,
        .wasted_share = -1,
        .wasted_money = -1,
        .wasted_money_month = -1,
    };
    count_replicas(replicas, out);
    find_figures(replicas, replica_count, &out->fleet);
    estimate_waste(replicas, terms, out);
    apply_rules(out);
}
