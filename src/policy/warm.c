// SPDX-License-Identifier: Apache-2.0
//
// warm -- picks the target where this request adds the least total delay, to itself and to others.
//
// Cache, queue, KV memory and batch size are all priced in milliseconds.  Speeds, loads and traffic
// are measured, so an operator sets nothing.  The constants below are fixed: they were chosen once,
// in the lab, for all workloads together.  For a prompt of which a target lacks u tokens:
//
//     p    = time to compute u tokens behind the cached ones            (base/prefill_curve.h)
//     W    = time to compute the queue there + decode steps in between + half a step if it is busy,
//            or M, the time until enough KV memory is free, if that is longer
//     s    = time for which this request alone would fill the whole KV memory
//     l    = arrivals per ms and target
//     T    = W + p                                    our own time to the first token
//          + l * p * (W + p/2)                        delay of requests that arrive behind us
//          + l * (p - min p) * (w + p/2) * r/(1 - r)  work that another target avoids: on a
//                                                     busy fleet it delays everyone
//          + l * s * (M + s/2) + l * (s - min s) * (m + s/2) * f/(1 - f)
//                                                     the same for memory
//     L    = (crowd_base + n + crowd_of_fleet * N) / (1 - fill)
//                                                     whom we slow down; risk of preemption
//     G    = 1 + lean_max * (share - 1)               work sent there recently, over the mean
//     cost = T * L * G
//
// r = l * mean p is the fleet's prefill load, f the mean fill of its memory; w and m are the means
// of W and M.  n is the number of requests there, other routers' included, partly counted by the
// tokens they hold; N is the mean of n; fill is the fraction of memory in use.  A holder keeps
// winning until its queue and its batch cost more than the cache saves.  That is decided target by
// target: no threshold on the whole fleet switches affinity off.
//
// A miss is also an investment: the target holds the prompt from then on.  So p - min p is
// multiplied by
//
//     max((1 / (1 + reuse))^reuse_exponent, investment_min, min(1, scarcity_slope * scarcity))
//
// reuse is how often a copy would be used before eviction if every target had one.  scarcity is the
// fraction of prompts whose copies would not last in such a fleet.  If everything fits everywhere,
// all targets soon hold everything, and only balance matters.  If caches are full, each new copy
// evicts another one, and a miss costs in full.  A prompt that costs about the same everywhere then
// goes to the target where a hash always sends it, so that an evicted prefix returns to the same
// cache.
//
// Unknown quantities are left out, not guessed: without arrivals l is 0, without mean p r is 0, and
// memory counts only if every target reports it.  The prices are bounded: r and f have limits, and
// w is at most the queue that such a load has in the long run.  A burst on cold caches makes
// temporary queues; pricing those would pin every prompt to its first holder.
//
// During the first few hundred requests scarcity is unknown: misses cost in full, and on a busy
// fleet G grows with a power of the share.
//
// A weight scales queue and batch, and decides between equals; an idle holder wins at any weight.

#include "base/base.h"
#include "base/hash.h"
#include "base/prefill_curve.h"
#include "base/rng.h"
#include "policy/policy.h"
#include "policy/sample_internal.h"

// The constants, one line each so that a sensitivity run can replace one value and rebuild.
// "Study" is the simulation that the rule came from, "lab" is `warmpath sim`; docs/decisions/0010
// and 0011 have the alternatives that were tried.

// Of the engine.

// Most tokens that one step computes: vLLM's default (max_num_batched_tokens), as in the study.
static const float step_tokens_max = 8192;
// Decoding reads this many tokens of context in the time of computing one.  The fits to one H200
// give 248 (13B), 841 (8B) and 1,956 (32B); the lab preferred 500 to the 1,000 of the first
// version.
static const float context_per_token = 500;

// Bounds of the prices.

// Highest r and f: the price of avoidable work is at most 4 times.  The study used 0.95, which
// pinned prefixes to their first holder in a burst on cold caches.
static const float load_max = 0.8F;
// Highest fill: L grows at most tenfold.  At 0.98 it swamped all other terms near saturation (lab,
// b2b).
static const float fill_max = 0.9F;

// Differences that count as noise.

// Speeds within this factor of the usual one count as equal.  Speeds learned on busy engines are no
// better than that, and the luckiest target would draw all cold prompts (lab; 1.25 before).
static const float speed_noise = 2;
// Costs within this factor of the least count as equal.  From the first version; never varied.
static const double cost_noise = 1.02;

// L, the batch.

// A batch of this many is hardly slower than a batch of one (1 before).  It came with the rules for
// the first requests, which together raised hits on small caches at light load from 80 to 95%.
static const double crowd_base = 4;
// Weight of the fleet's mean: on a full fleet, a few requests more or less are chance.  From the
// first version; never varied.
static const double crowd_of_fleet = 0.25;
// Part of n that is counted by tokens held, not by requests: long contexts slow a batch more.  0,
// 1/2 and 1 were no better in the lab.
static const float crowd_by_tokens = 0.25F;

// G, recent work.

// Added to both sides of the share, so that a few requests on an idle fleet are not a share yet.
// From the first version; never varied.
static const double recent_floor = 4;
// Highest lean.  Hashed prefixes fall unevenly: the busiest of 8 engines had up to 1.27 of the mean
// at 0.1, and 1.13 at 0.25.
static const double lean_max = 0.25;
// Share at which the lean is highest, so that a target far above its share still gets the prompts
// that it holds.  From the first version; never varied.
static const double lean_share_max = 2;
// While scarcity is unknown, G grows with this power of the share.  With a lower one a prompt in
// 80% of requests stayed on 4 engines of 8, 1.61 of the mean; with 4 the busiest had at most 1.37.
static const double guard_exponent = 4;
// It grows only on a busy fleet: in full from this many requests in flight at each target on (4
// before) ...
static const float busy_requests = 3;
// ... and this steeply below.  A lower one moves conversations on a fleet that is hardly busy: 1
// loses 1.8 points of hits in the first 1,500 requests of `chat`, 4 loses 0.8 (lab).  A step at
// busy_requests falls more than 5% behind the best peer on a busy fleet of four.
static const double busy_exponent = 6;

// Misses as investments.

// 1 kept prompts from spreading: p99 of TTFT on `stress` 0.89 of the best peer, 0.98 with 2 (lab).
static const float reuse_exponent = 2;
// Least part of a miss that counts: among equally idle targets a holder is still the better one.
static const float investment_min = 0.05F;
// Misses cost in full once an eighth of the prompts would not last (lab; only this value is
// recorded).
static const float scarcity_slope = 8;

// Affinity.

// A session may stay where it was at this factor of the least cost: a hint and not a pin (lab; 1.25
// before).  It is the only affinity of requests whose prompts have no keys.
static const double session_worth = 1.6;
// With scarce caches, a prompt may go where its hash sends it at this factor of the least cost.  On
// 4 full replicas mean TTFT fell from 131 s to 12 s (lab, b2b, 32B, 95% load).
static const double habit_worth = 1.3;

// Estimates are kept from the first pass for this many targets; those of more are computed again.
enum { kept_max = 128 };

struct warm_estimate {
    float crowd;       // n
    float missing;     // u
    float prefill;     // p
    float wait;        // W
    float memory_wait; // M
    float occupancy;   // s
    float fill;
    float share; // of the work, by weight; 1 on average
};

// The values that all targets of one decision share.
struct warm_scene {
    const struct policy_input *in;
    float prompt;          // tokens
    float block;           // tokens that are computed again at least
    float arrivals;        // per ms and target: l
    float load;            // r
    float token_ms;        // of a usual target
    float weight;          // mean
    float crowd;           // mean: N
    float request_tokens;  // held by one request, mean
    float recent_requests; // sent to a target recently, mean by weight
    float recent_tokens;   // likewise
    float decode_ms;       // mean time of a decoding; 0: not known
    float output_tokens;   // mean
    float scarcity;        // 0: copies last; 1: each copy evicts another one
    double guard;          // 0 on an idle fleet, 1 on a busy one
    bool is_new;           // scarcity is not known yet
    float investment;      // the part of a miss that does not pay for itself
    bool has_memory;       // all targets report how full they are

    // Over all targets, from the first pass.
    float least_prefill;
    float least_occupancy;
    float mean_wait;        // w
    float mean_memory_wait; // m
    float mean_fill;        // f
};

// NaN clamps to the lower bound.
static float clamp_float(float value, float low, float high)
{
    return value > low ? (value < high ? value : high) : low;
}

// A target that still has the shipped constant has not shown its speed.
static bool is_speed_learned(const struct policy_target *target)
{
    return target->prefill_ms > 0 && target->prefill_ms != PREFILL_SHIPPED_TOKEN_MS;
}

// A target without a learned speed counts as a usual one: taken for slow, it would never learn one.
static float token_ms_of(const struct warm_scene *scene, const struct policy_target *target)
{
    float usual = scene->token_ms;
    float learned = clamp_float(target->prefill_ms, 1e-5F, 1e5F);
    bool is_usual = learned < usual * speed_noise && learned * speed_noise > usual;
    return is_speed_learned(target) && !is_usual ? learned : usual;
}

// Tokens in the KV memory, or on their way there.
static float tokens_at(const struct policy_target *target)
{
    return clamp_float((float)target->context_tokens, 0, 1e9F) +
           clamp_float((float)target->queued_tokens, 0, 1e9F);
}

static float running_at(const struct policy_target *target)
{
    return clamp_float((float)target->running_requests, 0, 1e6F);
}

static float crowd_at(const struct warm_scene *scene, const struct policy_target *target)
{
    float by_tokens = tokens_at(target) / scene->request_tokens;
    return (1 - crowd_by_tokens) * running_at(target) + crowd_by_tokens * by_tokens +
           clamp_float(target->foreign_requests, 0, 1e6F);
}

static void scene_add_targets(const struct policy_input *in, struct warm_scene *scene)
{
    float inverse_speeds = 0;
    float learned_count = 0;
    double weight_sum = 0;
    double recent_requests = 0;
    double recent_tokens = 0;
    float running = 0;
    float foreign = 0;
    float tokens = 0;

    for (uint32_t i = 0; i < in->target_count; i++) {
        const struct policy_target *target = &in->targets[i];
        ASSERT(target->weight > 0);
        if (is_speed_learned(target)) {
            inverse_speeds += 1 / clamp_float(target->prefill_ms, 1e-5F, 1e5F);
            learned_count++;
        }
        weight_sum += target->weight;
        running += running_at(target);
        foreign += clamp_float(target->foreign_requests, 0, 1e6F);
        tokens += tokens_at(target);
        recent_requests += (double)clamp_float(target->recent_requests, 0, 1e9F);
        recent_tokens += (double)clamp_float(target->recent_tokens, 0, 1e12F);
        scene->has_memory &= target->cache_tokens > 0 && target->kv_usage >= 0;
    }
    // The harmonic mean: one very slow target does not spoil it.
    scene->token_ms = learned_count > 0 ? learned_count / inverse_speeds : PREFILL_SHIPPED_TOKEN_MS;
    scene->weight = (float)(weight_sum / in->target_count);
    scene->recent_requests = (float)(recent_requests / weight_sum) * scene->weight;
    scene->recent_tokens = (float)(recent_tokens / weight_sum) * scene->weight;
    scene->request_tokens = running > 0 ? clamp_float(tokens / running, 1, 1e9F) : 1;
    float by_tokens = tokens / scene->request_tokens;
    float crowd = (1 - crowd_by_tokens) * running + crowd_by_tokens * by_tokens + foreign;
    scene->crowd = crowd / (float)in->target_count;
}

static void scene_init(const struct policy_input *in, struct warm_scene *scene)
{
    *scene = (struct warm_scene){
        .in = in, .has_memory = true, .least_prefill = INFINITY, .least_occupancy = INFINITY};
    scene_add_targets(in, scene);

    // An empty prompt would cost nothing anywhere: count one token.
    scene->prompt = clamp_float((float)in->prompt_tokens, 1, 1e7F);
    scene->block = clamp_float((float)in->block_tokens, 1, scene->prompt);
    scene->decode_ms = clamp_float(in->traffic->decode_ms, 0, 1e8F);
    scene->output_tokens = clamp_float(in->traffic->output_tokens, 0, 1e7F);

    uint32_t pool = in->pool_size > in->target_count ? in->pool_size : in->target_count;
    float usual_prefill = clamp_float(in->traffic->prefill_ms, 0, 1e9F);
    scene->arrivals = clamp_float(in->traffic->arrivals_per_ms / (float)pool, 0, 1e3F);
    scene->load = clamp_float(scene->arrivals * usual_prefill, 0, load_max);
    // More arrivals than the fleet can serve are a burst: count those that it can serve.
    if (scene->arrivals * usual_prefill > 1) {
        scene->arrivals = 1 / usual_prefill;
    }

    scene->guard = pow((double)clamp_float(scene->crowd / busy_requests, 0, 1), busy_exponent);
    scene->is_new = in->traffic->scarcity < 0;
    scene->scarcity = scene->is_new ? 1 : clamp_float(in->traffic->scarcity * scarcity_slope, 0, 1);
    float unpaid = powf(1 / (1 + clamp_float(in->reuse, 0, 1e9F)), reuse_exponent);
    scene->investment = fmaxf(fmaxf(unpaid, investment_min), scene->scarcity);
}

// The request's share of the KV memory, and the time until enough of it is free.
static void estimate_memory(const struct warm_scene *scene, const struct policy_target *target,
                            struct warm_estimate *out)
{
    if (!scene->has_memory) {
        return;
    }
    float capacity = (float)target->cache_tokens;
    float queued = clamp_float((float)target->queued_tokens, 0, 1e9F);
    float used = clamp_float(target->kv_usage, 0, 1) * capacity;
    float lacking = clamp_float(out->missing + queued + used - capacity, 0, 1e9F);

    out->memory_wait =
        clamp_float(lacking * scene->decode_ms / clamp_float(used, 1, capacity), 0, 1e12F);
    float held = out->missing + scene->output_tokens;
    out->occupancy = clamp_float(held * (scene->decode_ms + out->prefill) / capacity, 0, 1e12F);
    out->fill = clamp_float((used + queued + out->missing) / capacity, 0, fill_max);
}

static struct warm_estimate estimate_target(const struct warm_scene *scene,
                                            const struct policy_target *target)
{
    float token_ms = token_ms_of(scene, target);
    float floor_ms = token_ms * PREFILL_STEP_TOKENS;
    float cached = clamp_float((float)target->matched_tokens, 0, scene->prompt - scene->block);
    float queued = clamp_float((float)target->queued_tokens, 0, 1e9F);
    float context = clamp_float((float)target->context_tokens, 0, 1e9F);
    float running = running_at(target);
    float foreign = clamp_float(target->foreign_requests, 0, 1e6F);

    struct warm_estimate out = {.crowd = crowd_at(scene, target),
                                .missing = scene->prompt - cached};
    out.prefill = prefill_curve_ms(token_ms, floor_ms, cached, out.missing);
    out.share = (float)target->weight / scene->weight;
    estimate_memory(scene, target, &out);

    // Prompts attend to themselves, not to each other.
    float in_line = clamp_float(running - (float)target->decoding, 1, 1e6F);
    out.wait = token_ms * in_line * prefill_curve_work(0, queued / in_line);
    // Each chunk of prefill shares its step with the requests that decode.
    float decode_ms = context * token_ms * (1 / context_per_token);
    float chunks = 1 + (float)(uint32_t)((queued + out.missing) * (1 / step_tokens_max));
    out.wait += chunks * decode_ms;
    out.wait += running + foreign > 0 ? (floor_ms + decode_ms) / 2 : 0;
    // Other routers' requests in the engine's queue are assumed to be like ours.
    float strangers = clamp_float(target->waiting - in_line, 0, foreign);
    out.wait += strangers * clamp_float(scene->in->traffic->prefill_ms, 0, 1e9F);
    out.wait = out.memory_wait > out.wait ? out.memory_wait : out.wait;
    out.wait = clamp_float(out.wait / out.share, 0, 1e15F);
    return out;
}

// The first pass: minima and means over all targets, from which the prices are made.
static void scene_compare(struct warm_scene *scene, struct warm_estimate kept[kept_max])
{
    float count = (float)scene->in->target_count;

    for (uint32_t i = 0; i < scene->in->target_count; i++) {
        struct warm_estimate now = estimate_target(scene, &scene->in->targets[i]);
        if (i < kept_max) {
            kept[i] = now;
        }
        scene->least_prefill =
            now.prefill < scene->least_prefill ? now.prefill : scene->least_prefill;
        scene->least_occupancy =
            now.occupancy < scene->least_occupancy ? now.occupancy : scene->least_occupancy;
        scene->mean_wait += now.wait / count;
        scene->mean_memory_wait += now.memory_wait / count;
        scene->mean_fill += now.fill / count;
    }
    float excess = scene->load / (1 - scene->load);
    float lasting = clamp_float(scene->in->traffic->prefill_ms, 0, 1e9F) * excess;
    scene->mean_wait = clamp_float(scene->mean_wait, 0, lasting);
    scene->mean_fill = clamp_float(scene->mean_fill, 0, load_max);
}

// Requests, or tokens to compute, sent there recently over the mean; the larger of the two.
// Requests in flight are one moment; this covers about half a minute.
static double recent_share(const struct warm_scene *scene, const struct policy_target *target,
                           float weight)
{
    double usual = (double)scene->recent_requests;
    double requests = (double)clamp_float(target->recent_requests, 0, 1e9F) / (double)weight;
    double tokens = (double)clamp_float(target->recent_tokens, 0, 1e12F) / (double)weight;
    // In units of a usual request, so that recent_floor fits both.
    tokens = scene->recent_tokens > 0 ? tokens * usual / (double)scene->recent_tokens : usual;
    double most = requests > tokens ? requests : tokens;
    return (most + recent_floor) / (usual + recent_floor);
}

static double time_ms(const struct warm_scene *scene, const struct warm_estimate *now)
{
    double least = (double)scene->least_prefill;
    double extra = ((double)now->prefill - least) * (double)scene->investment;
    double prefill = least + extra;
    double wait = (double)now->wait;
    double busy = (double)scene->load / (1 - (double)scene->load);
    double full = (double)scene->mean_fill / (1 - (double)scene->mean_fill);
    double occupancy = (double)now->occupancy;

    double later = prefill * (wait + prefill / 2);
    later += extra * ((double)scene->mean_wait + prefill / 2) * busy;
    later += occupancy * ((double)now->memory_wait + occupancy / 2);
    later += (occupancy - (double)scene->least_occupancy) *
             ((double)scene->mean_memory_wait + occupancy / 2) * full;
    return wait + prefill + (double)scene->arrivals * later;
}

static double cost_ms(const struct warm_scene *scene, const struct policy_target *target,
                      const struct warm_estimate *now)
{
    double crowd =
        crowd_base + (double)(now->crowd / now->share) + crowd_of_fleet * (double)scene->crowd;
    // Lean away from targets that got more than their share.  It decides between targets that cost
    // a cold prompt the same: the one that gets it also gets the prompts that share its prefix.
    double share = recent_share(scene, target, now->share);
    double lean = 1 + lean_max * (fmin(share, lean_share_max) - 1);
    // While scarcity is unknown, copies are not made freely: a prefix that most requests share
    // would stay on the few targets that had it first.
    if (scene->is_new && share > 1) {
        lean += scene->guard * (pow(share, guard_exponent) - 1);
    }
    return time_ms(scene, now) * crowd / (1 - (double)now->fill) * lean;
}

// Rendezvous hashing: the target to which the first block without a holder always goes; UINT32_MAX
// if every block has a holder.  An evicted prefix returns to where it was, so a fleet with scarce
// caches divides the prefixes among its members instead of having each everywhere in turn.
static uint32_t habitual_target(const struct policy_input *in)
{
    uint32_t held = 0;
    for (uint32_t i = 0; i < in->target_count; i++) {
        held = in->targets[i].matched_blocks > held ? in->targets[i].matched_blocks : held;
    }
    if (held >= in->key_count) {
        return UINT32_MAX;
    }
    uint32_t habit = 0;
    uint64_t highest = 0;
    for (uint32_t i = 0; i < in->target_count; i++) {
        uint64_t point = hash_pair(in->keys[held], in->targets[i].identity);
        habit = point >= highest ? i : habit;
        highest = point >= highest ? point : highest;
    }
    return habit;
}

static uint32_t pick_cheapest(const struct policy_input *in, double least, struct rng *rng)
{
    uint32_t best = 0;
    uint64_t tie_weight = 0;
    bool has_session = false;

    for (uint32_t i = 0; i < in->target_count; i++) {
        bool is_home = in->targets[i].has_session;
        if (in->costs[i] > least * (is_home ? session_worth : cost_noise) ||
            (has_session && !is_home)) {
            continue;
        }
        if (is_home && !has_session) {
            has_session = true;
            tie_weight = 0;
        }
        // Reservoir sampling: each of the equals wins by its share of their weight.
        tie_weight += in->targets[i].weight;
        if (sample_below(rng, tie_weight) < in->targets[i].weight) {
            best = i;
        }
    }
    return best;
}

static uint32_t warm_pick(void *state, const struct policy_input *in, struct rng *rng)
{
    (void)state;

    struct warm_scene scene;
    struct warm_estimate kept[kept_max];
    scene_init(in, &scene);
    scene_compare(&scene, kept);

    double least = INFINITY;
    for (uint32_t i = 0; i < in->target_count; i++) {
        struct warm_estimate now =
            i < kept_max ? kept[i] : estimate_target(&scene, &in->targets[i]);
        in->costs[i] = cost_ms(&scene, &in->targets[i], &now);
        least = in->costs[i] < least ? in->costs[i] : least;
    }
    uint32_t chosen = pick_cheapest(in, least, rng);
    if (scene.scarcity > 0 && !in->targets[chosen].has_session) {
        uint32_t habit = habitual_target(in);
        double worth = 1 + (habit_worth - 1) * (double)scene.scarcity;
        chosen = habit != UINT32_MAX && in->costs[habit] <= least * worth ? habit : chosen;
    }
    return chosen;
}

const struct policy policy_warm = {
    .name = "warm",
    .summary = "least predicted time for this request and those it delays, cache included",
    .reads_prompt = true,
    .may_sample = true,
    .pick = warm_pick,
};
