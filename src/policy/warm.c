// SPDX-License-Identifier: Apache-2.0
//
// warm -- the target where this request costs everybody the least time.
//
// Cache, queue, memory and crowd are all counted in milliseconds, predicted from speeds that were
// measured, so that there is no weight to tune.  For a prompt of which a target lacks u tokens:
//
//     p    = time to compute u tokens behind the cached ones            (base/prefill_curve.h)
//     W    = time to compute what is queued there + decode steps in between + half a step if busy,
//            or M, the time until enough KV memory is free, if that is longer
//     s    = time that the whole KV memory would be busy with this request alone
//     l    = arrivals per ms and target
//     T    = W + p                                    our own wait for the first token
//          + l * p * (W + p/2)                        that of those who come while we are in front
//          + l * (p - min p) * (w + p/2) * r/(1 - r)  work that another target would spare: all pay
//                                                     for it when the fleet is busy
//          + l * s * (M + s/2) + l * (s - min s) * (m + s/2) * f/(1 - f)
//                                                     the same for memory
//     L    = (4 + n + N/4) / (1 - fill)               who else is slowed down, how near preemption is
//     G    = 1 + (share - 1)/4                        what it was sent lately, over the mean
//     cost = T * L * G
//
// where r = l * mean p is how busy the fleet is with prompts and f how full its memory is, in the mean;
// w and m are the mean W and M; n counts the requests there, others' included, three quarters by head
// and one quarter by the tokens they hold; N is the mean of n, and fill is the share of memory in use.  A
// holder keeps winning until its queue and its crowd outgrow what the cache saves, target by target; no
// threshold on the whole fleet switches affinity off.
//
// A miss is also an investment: from then on the target holds the prompt.  What pays for itself is not
// counted as a cost, so p - min p is multiplied by
//
//     max(1 / (1 + reuse)^2, 1/20, min(1, 8 * scarcity))
//
// where reuse is how often a copy would be used before it is evicted if every target had one, and
// scarcity the share of prompts whose copies would not last in such a fleet.  Where all that is asked
// for fits everywhere, everybody soon holds everything, and what is left is to balance.  Where
// caches are full of what is asked for, one copy more drives another one out, and misses cost in full.
//
// And where caches are short, a prompt that costs about the same everywhere goes where it would go the
// next time too.
//
// What is not known is left out, not guessed: without arrivals there is no l, without mean p no price,
// and memory counts only when every target reports it.  The prices are bounded, by r and f, and by taking
// for w the mean W or the queue that such a load has in the long run, whichever is less: a burst on cold
// caches makes queues that pass, and a price on those would pin every prompt to its first holder.
//
// In the first few hundred requests nobody knows whether copies last: misses cost in full, and G grows
// with the fourth power of the share once the fleet is busy.
//
// Speeds that differ by less than a factor of two, and costs by less than a fiftieth, are taken as
// equal: what is learned on a busy engine is no better than that, and the luckiest target would draw all
// cold prompts.  A weight scales queue and crowd, and decides between equals; an idle holder wins whatever
// it weighs.

#include "base/base.h"
#include "base/hash.h"
#include "base/prefill_curve.h"
#include "base/rng.h"
#include "policy/policy.h"
#include "policy/sample_internal.h"

// Of engines' defaults: tokens that one step computes at most.
static const float chunk_tokens = 8192;
// To read so many tokens of context while decoding takes as long as to compute a new one.
static const float context_per_token = 500;

static const float load_max = 0.8F;
static const float fill_max = 0.9F;
static const float speed_noise = 2;
static const double tie = 1.02;
// What it may cost more to stay where a session was last.
static const double home_worth = 1.6;
// And to go where a prompt that nobody holds would go the next time too, when caches are short.
static const double habit_worth = 1.3;
static const double recent_floor = 4;
static const double lean_most = 0.25;
static const float scarce = 8;
// Requests in flight at each target from which on the fleet counts as busy.
static const float busy_requests = 3;
// However often it will be used: a holder that is as idle as the others is the better choice.
static const float least_counted = 0.05F;
// A batch of so many is hardly slower than one of one.
static const double first_few = 4;
// Of what a request counts in the crowd, the part that goes by the tokens it holds.
static const float crowd_by_tokens = 0.25F;

// Estimates that are kept from one pass over the targets to the next; those of further targets are
// made again.
enum { kept_max = 128 };

struct estimate {
    float crowd;       // n
    float missing;     // u
    float prefill;     // p
    float wait;        // W
    float memory_wait; // M
    float occupancy;   // s
    float fill;
    float share; // of the work, by weight; 1 on average
};

// What is the same for all targets of one decision.
struct scene {
    const struct policy_input *in;
    float prompt;          // tokens
    float block;           // tokens that are computed again at least
    float arrivals;        // per ms and target: l
    float load;            // r
    float token_ms;        // of a usual target
    float weight;          // mean
    float crowd;           // mean: N
    float request_tokens;  // held by one request, in the mean
    float recent_requests; // mean of what was sent lately, by weight
    float recent_tokens;   // likewise
    float decode_ms;       // mean time of a decoding; 0: not known
    float output_tokens;   // mean
    float scarcity;        // 0: copies last; 1: each drives another one out
    double guard;          // 0 on an idle fleet, 1 on a busy one
    bool is_new;           // which of the two is not known yet
    float investment;      // the part of a miss that does not pay for itself
    bool has_match;        // somebody holds some of it
    bool has_memory;       // all targets say how full they are

    // Of all targets, from the first pass.
    float least_prefill;
    float least_occupancy;
    float mean_wait;        // w
    float mean_memory_wait; // m
    float mean_fill;        // f
};

// Also what is not a number is within bounds.
static float bounded(float value, float low, float high)
{
    return value > low ? (value < high ? value : high) : low;
}

// A target that still has the shipped constant has not shown its speed.
static bool is_learned(float speed, float shipped)
{
    return speed > 0 && speed != shipped;
}

// The harmonic mean of the learned ones, which a single very slow target does not spoil.
struct speed_mean {
    float inverse_sum;
    float count;
};

static void speed_add(struct speed_mean *mean, float speed, float shipped)
{
    if (is_learned(speed, shipped)) {
        mean->inverse_sum += 1 / bounded(speed, 1e-5F, 1e5F);
        mean->count++;
    }
}

static float speed_usual(const struct speed_mean *mean, float shipped)
{
    return mean->count > 0 ? mean->count / mean->inverse_sum : shipped;
}

// Who has not shown its speed is a usual one: taken for slow it would never get to show it.
static float speed_of(float speed, float shipped, float usual)
{
    if (!is_learned(speed, shipped)) {
        return usual;
    }
    speed = bounded(speed, 1e-5F, 1e5F);
    bool is_usual = speed < usual * speed_noise && speed * speed_noise > usual;
    return is_usual ? usual : speed;
}

// In the KV memory, or on their way there.
static float tokens_at(const struct policy_target *target)
{
    return bounded((float)target->context_tokens, 0, 1e9F) +
           bounded((float)target->queued_tokens, 0, 1e9F);
}

static float running_at(const struct policy_target *target)
{
    return bounded((float)target->running_requests, 0, 1e6F);
}

// Who is there: some of it by head, some by what they hold, since long contexts slow a batch more.
static float crowd_at(const struct scene *scene, const struct policy_target *target)
{
    float by_tokens = tokens_at(target) / scene->request_tokens;
    return (1 - crowd_by_tokens) * running_at(target) + crowd_by_tokens * by_tokens +
           bounded(target->foreign_requests, 0, 1e6F);
}

static void survey_targets(const struct policy_input *in, struct scene *scene)
{
    struct speed_mean token = {0};
    double weight_sum = 0;
    double recent_requests = 0;
    double recent_tokens = 0;
    float running = 0;
    float foreign = 0;
    float tokens = 0;

    for (uint32_t i = 0; i < in->target_count; i++) {
        const struct policy_target *target = &in->targets[i];
        ASSERT(target->weight > 0);
        speed_add(&token, target->prefill_ms, PREFILL_SHIPPED_TOKEN_MS);
        weight_sum += target->weight;
        running += running_at(target);
        foreign += bounded(target->foreign_requests, 0, 1e6F);
        tokens += tokens_at(target);
        recent_requests += (double)bounded(target->recent_requests, 0, 1e9F);
        recent_tokens += (double)bounded(target->recent_tokens, 0, 1e12F);
        scene->has_match |= target->matched_tokens > 0;
        scene->has_memory &= target->cache_tokens > 0 && target->kv_usage >= 0;
    }
    scene->token_ms = speed_usual(&token, PREFILL_SHIPPED_TOKEN_MS);
    scene->weight = (float)(weight_sum / in->target_count);
    scene->recent_requests = (float)(recent_requests / weight_sum) * scene->weight;
    scene->recent_tokens = (float)(recent_tokens / weight_sum) * scene->weight;
    scene->request_tokens = running > 0 ? bounded(tokens / running, 1, 1e9F) : 1;
    // By the way it is made, the mean of the tokens is that of the heads.
    float by_tokens = tokens / scene->request_tokens;
    float crowd = (1 - crowd_by_tokens) * running + crowd_by_tokens * by_tokens + foreign;
    scene->crowd = crowd / (float)in->target_count;
}

static void survey(const struct policy_input *in, struct scene *scene)
{
    *scene = (struct scene){
        .in = in, .has_memory = true, .least_prefill = INFINITY, .least_occupancy = INFINITY};
    survey_targets(in, scene);

    // Nothing at all to compute would cost nothing anywhere: one token stands for it.
    scene->prompt = bounded((float)in->prompt_tokens, 1, 1e7F);
    scene->block = bounded((float)in->block_tokens, 1, scene->prompt);
    scene->decode_ms = bounded(in->traffic->decode_ms, 0, 1e8F);
    scene->output_tokens = bounded(in->traffic->output_tokens, 0, 1e7F);

    uint32_t pool = in->pool_size > in->target_count ? in->pool_size : in->target_count;
    float usual_prefill = bounded(in->traffic->prefill_ms, 0, 1e9F);
    scene->arrivals = bounded(in->traffic->arrivals_per_ms / (float)pool, 0, 1e3F);
    scene->load = bounded(scene->arrivals * usual_prefill, 0, load_max);
    // More than the fleet can do is a burst: the arrivals that matter are those it can serve.
    if (scene->arrivals * usual_prefill > 1) {
        scene->arrivals = 1 / usual_prefill;
    }

    // Steep: a fleet with little to do is left alone.
    scene->guard = pow((double)bounded(scene->crowd / busy_requests, 0, 1), 6);
    scene->is_new = in->traffic->scarcity < 0;
    scene->scarcity = scene->is_new ? 1 : bounded(in->traffic->scarcity * scarce, 0, 1);
    float once = 1 / (1 + bounded(in->reuse, 0, 1e9F));
    float counted = once * once > least_counted ? once * once : least_counted;
    scene->investment = counted > scene->scarcity ? counted : scene->scarcity;
}

static float cached_tokens(const struct scene *scene, const struct policy_target *target)
{
    float cached = bounded((float)target->matched_tokens, 0, scene->prompt);
    // The last turn of a conversation went there; how much of this one that is, nobody knows.
    bool is_blind = scene->in->key_count == 0 || !scene->has_match;
    if (is_blind && target->has_session && cached < scene->prompt / 2) {
        cached = scene->prompt / 2;
    }
    return cached < scene->prompt - scene->block ? cached : scene->prompt - scene->block;
}

// What it takes of the KV memory, and how long until enough of that is free.
static void estimate_memory(const struct scene *scene, const struct policy_target *target,
                            struct estimate *out)
{
    if (!scene->has_memory) {
        return;
    }
    float capacity = (float)target->cache_tokens;
    float queued = bounded((float)target->queued_tokens, 0, 1e9F);
    float used = bounded(target->kv_usage, 0, 1) * capacity;
    float lacking = bounded(out->missing + queued + used - capacity, 0, 1e9F);

    out->memory_wait = bounded(lacking * scene->decode_ms / bounded(used, 1, capacity), 0, 1e12F);
    float held = out->missing + scene->output_tokens;
    out->occupancy = bounded(held * (scene->decode_ms + out->prefill) / capacity, 0, 1e12F);
    out->fill = bounded((used + queued + out->missing) / capacity, 0, fill_max);
}

static struct estimate estimate(const struct scene *scene, const struct policy_target *target)
{
    float token_ms = speed_of(target->prefill_ms, PREFILL_SHIPPED_TOKEN_MS, scene->token_ms);
    float floor_ms = token_ms * PREFILL_STEP_TOKENS;
    float cached = cached_tokens(scene, target);
    float queued = bounded((float)target->queued_tokens, 0, 1e9F);
    float context = bounded((float)target->context_tokens, 0, 1e9F);
    float running = running_at(target);
    float foreign = bounded(target->foreign_requests, 0, 1e6F);

    struct estimate out = {.crowd = crowd_at(scene, target), .missing = scene->prompt - cached};
    out.prefill = prefill_curve_ms(token_ms, floor_ms, cached, out.missing);
    out.share = (float)target->weight / scene->weight;
    estimate_memory(scene, target, &out);

    // Prompts attend to themselves, not to each other.
    float in_line = bounded(running - (float)target->decoding, 1, 1e6F);
    out.wait = token_ms * in_line * prefill_curve_work(0, queued / in_line);
    // Each chunk shares its step with those who decode.
    float decode_ms = context * token_ms * (1 / context_per_token);
    float chunks = 1 + (float)(uint32_t)((queued + out.missing) * (1 / chunk_tokens));
    out.wait += chunks * decode_ms;
    out.wait += running + foreign > 0 ? (floor_ms + decode_ms) / 2 : 0;
    // Those in the engine's queue that are not ours are like ours.
    float strangers = bounded(target->waiting - in_line, 0, foreign);
    out.wait += strangers * bounded(scene->in->traffic->prefill_ms, 0, 1e9F);
    out.wait = out.memory_wait > out.wait ? out.memory_wait : out.wait;
    out.wait = bounded(out.wait / out.share, 0, 1e15F);
    return out;
}

// The first pass: what prices are made of.
static void compare(struct scene *scene, struct estimate kept[kept_max])
{
    float count = (float)scene->in->target_count;

    for (uint32_t i = 0; i < scene->in->target_count; i++) {
        struct estimate now = estimate(scene, &scene->in->targets[i]);
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
    float lasting = bounded(scene->in->traffic->prefill_ms, 0, 1e9F) * excess;
    scene->mean_wait = bounded(scene->mean_wait, 0, lasting);
    scene->mean_fill = bounded(scene->mean_fill, 0, load_max);
}

// What was sent there lately, over the mean: requests or tokens to compute, whichever is more.  Requests
// in flight are a glance; this is a look.
static double share_of(const struct scene *scene, const struct policy_target *target, float weight)
{
    double usual = (double)scene->recent_requests;
    double requests = (double)bounded(target->recent_requests, 0, 1e9F) / (double)weight;
    double tokens = (double)bounded(target->recent_tokens, 0, 1e12F) / (double)weight;
    // In units of a usual request, so that a few of them on an idle fleet are no share yet.
    tokens = scene->recent_tokens > 0 ? tokens * usual / (double)scene->recent_tokens : usual;
    double most = requests > tokens ? requests : tokens;
    return (most + recent_floor) / (usual + recent_floor);
}

static double time_ms(const struct scene *scene, const struct estimate *now)
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

static double cost_ms(const struct scene *scene, const struct policy_target *target,
                      const struct estimate *now)
{
    double crowd = first_few + (double)(now->crowd / now->share) + (double)scene->crowd / 4;
    // Who got more than its share lately is leaned away from: it decides between targets that
    // are the same to a cold prompt, since whoever gets it gets its followers.
    double share = share_of(scene, target, now->share);
    double lean = 1 + lean_most * (share < 2 ? share - 1 : 1);
    // As long as nobody knows whether copies last they are not made freely, and a prompt that most requests
    // begin with would stay on the few targets that had it first.
    if (scene->is_new && share > 1) {
        lean += scene->guard * (share * share * share * share - 1);
    }
    return time_ms(scene, now) * crowd / (1 - (double)now->fill) * lean;
}

// Where the first block that nobody holds goes by habit: always to the same target, whatever came between
// (rendezvous hashing).  A prefix that was evicted then comes back to where it was, and a fleet whose
// caches are short divides the prefixes among its members instead of having each everywhere by turns.
static uint32_t habit_of(const struct policy_input *in)
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

static uint32_t choose(const struct policy_input *in, double least, struct rng *rng)
{
    uint32_t best = 0;
    uint64_t tie_weight = 0;
    bool has_session = false;

    for (uint32_t i = 0; i < in->target_count; i++) {
        bool is_home = in->targets[i].has_session;
        if (in->costs[i] > least * (is_home ? home_worth : tie) || (has_session && !is_home)) {
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

    struct scene scene;
    struct estimate kept[kept_max];
    survey(in, &scene);
    compare(&scene, kept);

    double least = INFINITY;
    for (uint32_t i = 0; i < in->target_count; i++) {
        struct estimate now = i < kept_max ? kept[i] : estimate(&scene, &in->targets[i]);
        in->costs[i] = cost_ms(&scene, &in->targets[i], &now);
        least = in->costs[i] < least ? in->costs[i] : least;
    }
    uint32_t chosen = choose(in, least, rng);
    if (scene.scarcity > 0 && !in->targets[chosen].has_session) {
        uint32_t habit = habit_of(in);
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
