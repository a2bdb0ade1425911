// Whole configurations: defaults of omitted keys, and the message for each impossible value.
#include "cli/config/config.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/config/config_text.h"
#include "coordinator/config_digest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/json.h"
#include "worker/device/device.h"

namespace zerofleet::cli {
namespace {

using ::testing::HasSubstr;

constexpr char kSmallest[] = "model: {preset: gpt2-124m}\ndata: {train: [text.txt]}\n";

absl::StatusOr<v1::Config> Parse(const std::string& text, const std::vector<std::string>& sets = {}) {
  std::vector<ConfigOverride> overrides;
  for (const std::string& set : sets) overrides.push_back({"--set", set});
  return ParseConfig(text, "run.yaml", overrides);
}

TEST(ConfigDefaults, CompleteTheSmallestConfiguration) {
  const absl::StatusOr<v1::Config> config = Parse(kSmallest);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(
      config->ShortDebugString(),
      "model { preset: \"gpt2-124m\" family: \"gpt2\" layers: 12 hidden: 768 heads: 12 kv_heads: 12 "
      "intermediate: 3072 context: 1024 vocab: 50257 } "
      "data { train: \"text.txt\" format: \"auto\" tokenizer: \"bytes\" on_change: \"warn\" loss_on: \"all\" } "
      "parallel { zero_stage: 2 workers: 1 tensor: 1 team: \"auto\" } precision: \"bf16\" "
      "batch { global_sequences: 16 micro_sequences: 16 } "
      "optimizer { name: \"adamw\" learning_rate: 0.0003 beta1: 0.9 beta2: 0.95 epsilon: 1e-08 weight_decay: 0.1 "
      "grad_clip: 1 } schedule { warmup_steps: 100 decay: \"cosine\" min_learning_rate: 2.9999999999999997e-05 "
      "decay_shape: \"linear\" } "
      "steps: 1000 evaluate { batches: 10 weights: \"current\" } checkpoint { dir: \"checkpoints\" every_steps: 100 "
      "keep: 3 "
      "snapshot: \"auto\" stall_timeout_seconds: 120 } "
      "device: \"auto\" collectives: \"auto\" "
      "restart { max_per_rank: 3 form_timeout_seconds: 300 heartbeat_timeout_seconds: 2 load_timeout_seconds: 300 "
      "reconnect_timeout_seconds: 300 } seed: 1 "
      "integrity { } on_divergence: \"stop\" activation { checkpointing: \"none\" offload: \"none\" } "
      "reduce { every: \"micro_batch\" order: \"ranks\" } divergence { window_steps: 32 max_rollbacks: 3 } "
      "offload { optimizer: \"none\" fraction: 1 parameters: \"none\" delayed_update { lookahead: true } } memory { } "
      "buffers { } agreement: \"strict\" device_isa: \"auto\" loss { } ema { start_step: 1 } histograms { }");
}

TEST(ConfigDefaults, StepsMayFollowFromTokens) {
  // A step takes 16 sequences of 1024 tokens.
  const absl::StatusOr<v1::Config> config = Parse(kSmallest, {"tokens=100000", "schedule.decay=wsd"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->steps(), 7);
  EXPECT_EQ(config->schedule().decay_steps(), 1);
  EXPECT_EQ(Parse(kSmallest, {"tokens=100000", "steps=3"}).status().message(),
            "--set: tokens: makes 7 steps, and steps is 3; leave one of them out");
}

TEST(ConfigDefaults, StepsMayFollowFromEpochs) {
  int64_t longest = 0;
  const SampleCounter count = [&](const v1::Config& config) {
    longest = config.steps();
    EXPECT_EQ(config.model().context(), 1024);
    EXPECT_EQ(config.batch().micro_sequences(), 16);
    return 100;
  };
  // 1.5 epochs of the counted samples are 150 samples, 16 in a step.
  const std::vector<ConfigOverride> overrides = {{"--set", "epochs=1.5"}, {"--set", "schedule.decay=wsd"}};
  const absl::StatusOr<v1::Config> config = ParseConfig(kSmallest, "run.yaml", overrides, count);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->steps(), 10);
  EXPECT_EQ(config->epochs(), 0);
  EXPECT_EQ(config->schedule().decay_steps(), 1);
  EXPECT_EQ(longest, 1'000'000'000);
  // A run has at least one step.
  EXPECT_EQ(ParseConfig(kSmallest, "run.yaml", {{"--set", "epochs=0.01"}}, count)->steps(), 1);
  EXPECT_EQ(ParseConfig(kSmallest, "run.yaml", {{"--set", "epochs=3"}}, count)->steps(), 19);
  // 112 samples are 7 steps, though 1.12 x 100 is a little more in binary.
  EXPECT_EQ(ParseConfig(kSmallest, "run.yaml", {{"--set", "epochs=1.12"}}, count)->steps(), 7);
  // Steps of many tokens do not make the run too long to be counted.
  const absl::StatusOr<v1::Config> wide =
      ParseConfig(kSmallest, "run.yaml", {{"--set", "epochs=1"}, {"--set", "batch.global_sequences=65536"}},
                  [](const v1::Config&) { return 1'000'000; });
  ASSERT_TRUE(wide.ok()) << wide.status();
  EXPECT_EQ(wide->steps(), 16);
  const auto error = [&](const std::string& with) {
    return std::string(
        ParseConfig(kSmallest, "run.yaml", {{"--set", "epochs=2"}, {"--set", with}}, count).status().message());
  };
  EXPECT_EQ(error("steps=3"), "--set: epochs: steps says how long the run is, too; leave one of them out");
  EXPECT_EQ(error("tokens=3000"), "--set: epochs: tokens says how long the run is, too; leave one of them out");
  EXPECT_EQ(error("data.train=[{path: a, weight: 1}, {path: b, weight: 2}]"),
            "--set: epochs: of a mixture differ from set to set; give steps or tokens");
  EXPECT_EQ(error("epochs=-1"), "--set: epochs: must be 0, or > 0 and <= 1e6, got -1");
  EXPECT_EQ(error("epochs=1e6"), "");
  EXPECT_EQ(Parse(kSmallest, {"epochs=1"}).status().message(),
            "--set: epochs: need the data, which are not read here; give steps");
}

TEST(ConfigDefaults, AdaptersHaveAScale) {
  const absl::StatusOr<v1::Config> config = Parse(kSmallest, {"model.lora.rank=8"});
  EXPECT_THAT(std::string(config.status().message()), testing::HasSubstr("init_from: is missing; model.lora trains"));
  EXPECT_FALSE(Parse(kSmallest)->model().has_lora());
  for (const std::string set : {"model.lora.targets=[c_attn]", "model.lora.alpha=4"}) {
    EXPECT_EQ(Parse(kSmallest, {set}).status().message(),
              absl::StrCat("--set: ", set.substr(0, set.find('=')),
                           ": needs model.lora.rank, such as 16; or leave model.lora out"));
  }
}

TEST(ConfigDefaults, FollowOtherKeys) {
  const absl::StatusOr<v1::Config> config = Parse(
      "model: {layers: 2, hidden: 48, heads: 3, context: 32}\n"
      "data: {train: [a], validation: [b]}\nparallel: {workers: 4}\nsteps: 50\n");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model().vocab(), 256);
  EXPECT_EQ(config->model().intermediate(), 192);
  EXPECT_EQ(config->batch().micro_sequences(), 4);
  EXPECT_EQ(config->schedule().warmup_steps(), 5);
  EXPECT_EQ(config->evaluate().every_steps(), 100);
  EXPECT_EQ(Parse(kSmallest, {"on_divergence=rollback"})->divergence().spike_factor(), 2);
}

// form_timeout_seconds once covered all three timeouts.
TEST(ConfigDefaults, TheFormTimeoutIsThatOfLoadingAndReconnecting) {
  const absl::StatusOr<v1::Config> together = Parse(kSmallest, {"restart.form_timeout_seconds=20"});
  ASSERT_TRUE(together.ok()) << together.status();
  EXPECT_EQ(together->restart().load_timeout_seconds(), 20);
  EXPECT_EQ(together->restart().reconnect_timeout_seconds(), 20);
  const absl::StatusOr<v1::Config> apart =
      Parse(kSmallest, {"restart.load_timeout_seconds=900", "restart.reconnect_timeout_seconds=60"});
  ASSERT_TRUE(apart.ok()) << apart.status();
  EXPECT_EQ(apart->restart().form_timeout_seconds(), 300);
  EXPECT_EQ(apart->restart().load_timeout_seconds(), 900);
  EXPECT_EQ(apart->restart().reconnect_timeout_seconds(), 60);
}

TEST(ConfigCheck, TakesTheKeysOfADivergenceThatHaveAnEffect) {
  EXPECT_TRUE(Parse(kSmallest, {"divergence.spike_factor=3", "divergence.window_steps=16"}).ok());
  EXPECT_TRUE(Parse(kSmallest, {"on_divergence=rollback", "divergence.max_rollbacks=2"}).ok());
  // As `train` writes it for its processes.
  EXPECT_TRUE(
      Parse(kSmallest, {"on_divergence=stop", "divergence.max_rollbacks=3", "divergence.window_steps=32"}).ok());
}

TEST(ConfigDefaults, AreTheOptimizersOwn) {
  const absl::StatusOr<v1::Config> config = Parse(kSmallest, {"optimizer.name=sgd", "optimizer.momentum=0.5"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->optimizer().ShortDebugString(), "name: \"sgd\" learning_rate: 0.1 grad_clip: 1 momentum: 0.5");
  EXPECT_EQ(config->schedule().min_learning_rate(), 0.01);
}

// What `train` writes for its processes is a complete configuration, every key given.
TEST(ConfigDefaults, ACompleteConfigurationReadsBack) {
  for (const char* name : {"adamw", "sgd"}) {
    const v1::Config config = Parse(kSmallest, {std::string("optimizer.name=") + name}).value();
    const absl::StatusOr<v1::Config> again = Parse(DumpJson(ProtoToJson(config)));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->SerializeAsString(), config.SerializeAsString());
  }
}

TEST(ConfigDefaults, GivenFieldsStandOverThePreset) {
  const absl::StatusOr<v1::Config> config = Parse(kSmallest, {"model.layers=3", "model.vocab=300"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model().layers(), 3);
  EXPECT_EQ(config->model().hidden(), 768);
  EXPECT_EQ(config->model().vocab(), 300);
}

struct BadConfig {
  std::vector<std::string> sets;
  const char* message;
};

TEST(ConfigCheck, AnswersEachImpossibleValueWithWhatWouldBeRight) {
  const BadConfig cases[] = {
      {{"model.preset=gpt2-125m"},
       "--set: model.preset: unknown preset; did you mean gpt2-124m? (the presets are gpt2-tiny, "
       "gpt2-mini, gpt2-char, gpt2-124m, gpt2-355m, gpt2-774m, "
       "gpt2-1558m, zero-offload-1b, zero-8b, zero-13b, zero-40b, zero-60b, zero-100b, zero-170b, zero-1t, "
       "turing-nlg-17b, llama2-7b, llama2-13b, "
       "llama2-70b, llama3-8b, llama3-70b, llama3.2-1b, llama3.2-3b, mistral-7b, tinyllama-1.1b, smollm2-135m, "
       "smollm2-360m, smollm2-1.7b, qwen2-0.5b, qwen2.5-7b, qwen3-0.6b, qwen3-8b)"},
      {{"model.heads=5"}, "--set: model.heads: 5 heads do not divide model.hidden, 768; 4 would"},
      {{"model.heads=1000"}, "--set: model.heads: 1000 heads do not divide model.hidden, 768; 768 would"},
      {{"model.heads=0"}, "--set: model.heads: must be 1 to 1000000, got 0"},
      {{"model.kv_heads=4"}, "--set: model.kv_heads: must equal model.heads, 12, for gpt2, got 4; leave it out"},
      {{"model.context=0"}, "--set: model.context: must be 1 to 10000000, got 0"},
      {{"model.vocab=0"}, "--set: model.vocab: must be 1 to 100000000, got 0"},
      {{"model.family=llama"}, "run.yaml: model.intermediate: is missing; llama has no default of it"},
      {{"model.family=bert"}, "--set: model.family: must be gpt2, llama or torch, got \"bert\""},
      {{"model.hidden=1000000", "model.heads=1000", "model.layers=10000"},
       "run.yaml:1: model: these sizes make about 120000.1T parameters; at most 4.0T can be trained"},
      {{"data.train=[]"}, "--set: data.train: must name at least one file or directory, such as [text.txt]"},
      {{"data.train=[\"\"]"}, "--set: data.train: contains an empty path"},
      {{"data.train=[{path: a, weight: 1}, {path: b, weight: 0.00001}]", "data.train_weights=[1]"},
       "--set: data.train_weights: must have one weight for each entry of data.train, 2, got 1"},
      {{"data.train=[{path: a, weight: 999999}, {path: b, weight: 2}]"},
       "--set: data.train: the weights must be at most 1000000 in all as integers; give them fewer digits"},
      {{"data.validation={a: x, \"b c\": y}"},
       "--set: data.validation: a set's name must be 1 to 64 letters, digits, '_', '-' and '.', got \"b c\""},
      {{"data.loss_on=assistant"}, "--set: data.loss_on: assistant needs a data.tokenizer other than bytes"},
      {{"data.format=megatron"},
       "--set: data.format: megatron is not supported; use auto, text, jsonl, tokens_u16 or tokens_u32"},
      {{"data.tokenizer=a.model"}, "--set: data.tokenizer: a.model: cannot stat: No such file or directory"},
      {{"data.format=text", "model.vocab=255"}, "--set: model.vocab: must be >= 256 for text in bytes, got 255"},
      {{"evaluate.every_steps=5"}, "--set: evaluate.every_steps: needs data.validation, or 0 for no evaluation"},
      {{"parallel.zero_stage=4"}, "--set: parallel.zero_stage: must be 0 to 3, got 4"},
      {{"parallel.zero_stage=-1"}, "--set: parallel.zero_stage: must be 0 to 3, got -1"},
      {{"parallel.workers=0"}, "--set: parallel.workers: must be 1 to 16384, got 0"},
      {{"parallel.tensor=2"}, "--set: parallel.tensor: must divide parallel.workers, 1, got 2"},
      {{"parallel.workers=5", "parallel.tensor=5"},
       "--set: parallel.tensor: cannot be 5 with model.heads 12, model.intermediate 3072 and model.vocab 50257; 1, 2, "
       "3, "
       "4, 6, 12 fit"},
      {{"parallel.workers=2", "parallel.tensor=2", "integrity.replay_every_steps=1"},
       "--set: integrity.replay_every_steps: must be 0 with parallel.tensor 2, whose ranks compute parts of a "
       "micro-batch, got 1"},
      {{"parallel.workers=2", "parallel.tensor=2", "integrity.every_steps=1"},
       "--set: integrity.every_steps: must be 0 for a single tensor group: nothing is kept twice to compare"},
      {{"parallel.workers=6", "parallel.tensor=2"},
       "run.yaml: batch.global_sequences: 16 cannot be shared equally by 3 tensor groups of 2 workers; 15 or 18 can"},
      {{"parallel.workers=2", "parallel.sequence=true"},
       "--set: parallel.sequence: true needs a tensor group to split over: parallel.tensor 2 or more, got 1"},
      {{"parallel.workers=4", "parallel.tensor=4", "parallel.sequence=true", "model.context=30"},
       "--set: parallel.sequence: cannot divide model.context 30 among 4 ranks; 28 or 32 would fit"},
      {{"parallel.workers=2", "parallel.tensor=2", "parallel.sequence=true", "activation.checkpointing=block",
        "activation.partition=true"},
       "--set: activation.partition: must be false with parallel.sequence, which leaves no input whole; leave it out"},
      {{"parallel.team=0"}, "--set: parallel.team: must be auto or 1 to 16384, got \"0\""},
      {{"parallel.team=four"}, "--set: parallel.team: must be auto or 1 to 16384, got \"four\""},
      {{"parallel.workers=3"},
       "run.yaml: batch.global_sequences: 16 cannot be shared equally by 3 workers; 15 or 18 can"},
      {{"parallel.workers=17"}, "run.yaml: batch.global_sequences: 16 cannot be shared equally by 17 workers; 17 can"},
      {{"parallel.workers=2", "batch.micro_sequences=3"},
       "run.yaml: batch.global_sequences: 16 is not a multiple of parallel.workers x batch.micro_sequences = 2 x 3 = "
       "6; "
       "12 or 18 is"},
      {{"activation.checkpointing=blok"},
       "--set: activation.checkpointing: must be none, block, selective or {every: n}, got \"blok\"; did you mean "
       "block?"},
      {{"activation.checkpointing={every: 0}"},
       "--set: activation.checkpointing: must be {every: n} with n of 1 to 10000, got \"{every: 0}\""},
      {{"reduce.every=steps"}, "--set: reduce.every: must be micro_batch or step, got \"steps\"; did you mean step?"},
      {{"reduce.order=samples"},
       "run.yaml: batch.micro_sequences: is missing; with reduce.order samples it decides the bits, and must not "
       "follow "
       "from the number of workers, so give it"},
      {{"reduce.order=samples", "batch.micro_sequences=3"},
       "run.yaml: batch.global_sequences: 16 is not a multiple of batch.micro_sequences, 3; 15 or 18 is"},
      {{"reduce.order=samples", "batch.micro_sequences=4", "parallel.workers=5"},
       "--set: parallel.workers: a step has 4 micro-batches, too few for 5 workers; at most 4 can share it"},
      {{"reduce.order=samples", "batch.micro_sequences=4", "parallel.workers=3", "parallel.team=2"},
       "--set: parallel.team: must be auto with reduce.order samples, which sums all ranks as one team, got 2"},
      {{"reduce.order=samples", "batch.micro_sequences=4", "reduce.every=step"},
       "--set: reduce.every: step is not supported with reduce.order samples, which sums every micro-batch; use "
       "micro_batch"},
      {{"reduce.order=samples", "batch.micro_sequences=4", "buffers.bucket_bytes=65536"},
       "--set: buffers.bucket_bytes: must be 0 with reduce.order samples, got 65536"},
      {{"activation.partition=true"},
       "--set: activation.partition: true needs activation.checkpointing block or {every: n}, which keep inputs, got "
       "none"},
      {{"activation.partition=true", "activation.checkpointing=block"},
       "--set: activation.partition: true needs a tensor group to split over: parallel.tensor 2 or more, got 1"},
      {{"activation.offload=cpu", "activation.checkpointing=selective"},
       "--set: activation.offload: cpu needs activation.checkpointing block or {every: n}, which keep inputs, got "
       "selective"},
      {{"activation.offload=nvme"}, "--set: activation.offload: must be none or cpu, got \"nvme\""},
      {{"offload.optimizer=gpu"}, "--set: offload.optimizer: must be none, cpu or nvme, got \"gpu\""},
      {{"offload.optimizer=nvme"},
       "--set: offload.optimizer: nvme needs offload.dir: a directory on a fast disk of every host, such as "
       "/scratch/states"},
      {{"offload.optimizer=cpu", "offload.dir=/scratch"},
       "--set: offload.dir: must be left out with offload.optimizer cpu, got \"/scratch\"; nvme uses it"},
      {{"offload.optimizer=nvme", "offload.dir=/scratch", "offload.speculative=true"},
       "--set: offload.speculative: true needs offload.optimizer: cpu, got nvme"},
      {{"offload.optimizer=cpu", "parallel.zero_stage=0"},
       "--set: offload.optimizer: cpu needs parallel.zero_stage 1, 2 or 3: in stage 0 every rank would copy and update "
       "the whole model on its host"},
      {{"offload.fraction=1.5"}, "--set: offload.fraction: must be a number from 0 to 1, or auto, got 1.5"},
      {{"offload.fraction=1.0000001"}, "--set: offload.fraction: must be a number from 0 to 1, or auto, got 1.0000001"},
      {{"offload.fraction=automatic"}, "--set: offload.fraction: must be a number or auto, got \"automatic\""},
      {{"offload.fraction=inf"}, "--set: offload.fraction: must be a number or auto, got \"inf\""},
      {{"offload.fraction=auto"}, "--set: offload.fraction: must be left out without offload.optimizer: cpu, got auto"},
      {{"offload.fraction=auto", "offload.optimizer=cpu"},
       "--set: offload.fraction: auto needs memory.device_limit: as many states stay on the device as it has room for"},
      {{"offload.optimizer=cpu", "offload.fraction=auto", "memory.device_limit=4GiB",
        "offload.delayed_update.after_steps=40"},
       "--set: offload.fraction: must be 1 with offload.delayed_update.after_steps 40, got auto: all parameters are "
       "updated late, so all states are on the host"},
      {{"offload.optimizer=cpu", "offload.fraction=auto", "memory.device_limit=4GiB", "checkpoint.snapshot=stream"},
       "--set: checkpoint.snapshot: stream reads states that are in one memory: it needs offload.optimizer none or "
       "cpu, and offload.fraction 0 or 1; use auto or memory"},
      {{"offload.fraction=0.5"}, "--set: offload.fraction: must be left out without offload.optimizer: cpu, got 0.5"},
      {{"offload.optimizer=cpu", "offload.fraction=0.5", "offload.delayed_update.after_steps=40"},
       "--set: offload.fraction: must be 1 with offload.delayed_update.after_steps 40, got 0.5: all parameters are "
       "updated late, so all states are on the host"},
      {{"offload.delayed_update.after_steps=40"},
       "--set: offload.delayed_update.after_steps: must be 0 without offload.optimizer: cpu, got 40"},
      {{"offload.parameters=nvme"}, "--set: offload.parameters: must be none or cpu, got \"nvme\""},
      {{"offload.parameters=cpu", "offload.optimizer=cpu"},
       "--set: offload.parameters: cpu needs parallel.zero_stage 3, got 2: in the other stages whole parameters are in "
       "use from step to step"},
      {{"offload.parameters=cpu", "parallel.zero_stage=3"},
       "--set: offload.parameters: cpu needs offload.optimizer: cpu, got none: the states are larger"},
      {{"offload.parameters=cpu", "parallel.zero_stage=3", "offload.optimizer=cpu", "offload.fraction=0.5"},
       "--set: offload.parameters: cpu needs offload.fraction 1, got 0.5: the states that stay are larger"},
      {{"offload.speculative=true"}, "--set: offload.speculative: true needs offload.optimizer: cpu, got none"},
      {{"offload.speculative=true", "offload.optimizer=cpu", "offload.delayed_update.after_steps=40"},
       "--set: offload.speculative: must be false with offload.delayed_update.after_steps 40: a late update knows its "
       "norm"},
      {{"offload.speculative=1"}, "--set: offload.speculative: must be true or false, got \"1\""},
      {{"checkpoint.snapshot=disk"}, "--set: checkpoint.snapshot: must be auto, memory or stream, got \"disk\""},
      {{"checkpoint.snapshot=stream", "offload.optimizer=cpu", "offload.fraction=0.5"},
       "--set: checkpoint.snapshot: stream reads states that are in one memory: it needs offload.optimizer none or "
       "cpu, and offload.fraction 0 or 1; use auto or memory"},
      {{"buffers.bucket_bytes=1000"},
       "--set: buffers.bucket_bytes: must be 0, or 65536 to 17179869184, a multiple of 1024, got 1000"},
      {{"buffers.bucket_bytes=65537"},
       "--set: buffers.bucket_bytes: must be 0, or 65536 to 17179869184, a multiple of 1024, got 65537"},
      {{"buffers.bucket_bytes=1099511627776"},
       "--set: buffers.bucket_bytes: must be 0, or 65536 to 17179869184, a multiple of 1024, got 1099511627776"},
      {{"buffers.bucket_bytes=65536", "offload.optimizer=cpu"},
       "--set: buffers.bucket_bytes: must be 0 with offload.optimizer cpu, whose gradients leave a unit at a time, got "
       "65536"},
      {{"memory.device_limit=4GB"}, "--set: memory.device_limit: must be a size such as 4GiB or 512MiB, got \"4GB\""},
      {{"precision=bf61"}, "--set: precision: must be bf16, fp16 or fp32, got \"bf61\"; did you mean bf16?"},
      {{"optimizer.name=adam"}, "--set: optimizer.name: must be adamw, sgd or muon, got \"adam\"; did you mean adamw?"},
      {{"optimizer.momentum=0.9"},
       "--set: optimizer.momentum: is a key of sgd, and optimizer.name is adamw; leave it out"},
      {{"optimizer.name=sgd", "optimizer.epsilon=1e-8"},
       "--set: optimizer.epsilon: is a key of adamw, and optimizer.name is sgd; leave it out"},
      {{"optimizer.name=sgd", "optimizer.momentum=1"},
       "--set: optimizer.momentum: must be >= 0 and < 1, such as 0.9, got 1"},
      {{"optimizer.learning_rate=0"}, "--set: optimizer.learning_rate: must be > 0, such as 3.0e-4, got 0"},
      {{"optimizer.beta2=1"}, "--set: optimizer.beta2: must be >= 0 and < 1, such as 0.95, got 1"},
      {{"optimizer.epsilon=0"}, "--set: optimizer.epsilon: must be > 0, such as 1.0e-8, got 0"},
      {{"optimizer.weight_decay=-0.1"}, "--set: optimizer.weight_decay: must be >= 0, got -0.1"},
      {{"optimizer.grad_clip=-1"}, "--set: optimizer.grad_clip: must be > 0, or 0 for no clipping, got -1"},
      {{"schedule.decay=cosin"},
       "--set: schedule.decay: must be cosine, linear, constant, wsd or restarts, got \"cosin\"; did you mean cosine?"},
      {{"schedule.warmup_steps=-1"}, "--set: schedule.warmup_steps: must be 0 to 1000000000000, got -1"},
      {{"schedule.min_learning_rate=1"},
       "--set: schedule.min_learning_rate: must be >= 0 and <= optimizer.learning_rate, got 1"},
      {{"steps=0"}, "--set: steps: must be 1 to 1000000000000, got 0"},
      {{"steps=1000000000000", "batch.global_sequences=1000000000"},
       "--set: steps: steps x batch.global_sequences x model.context = 1.0e+24 tokens; at most 4.0e+18 can be counted"},
      {{"checkpoint.dir="}, "--set: checkpoint.dir: must name a directory, such as checkpoints"},
      {{"checkpoint.replicate=2"}, "--set: checkpoint.replicate: must be 0 to 1, got 2"},
      {{"checkpoint.replicate=1"},
       "--set: checkpoint.replicate: needs checkpoint.snapshot_every_steps, which is 0; got 1"},
      {{"offload.optimizer=cpu", "parallel.zero_stage=2", "offload.delayed_update.after_steps=5",
        "checkpoint.snapshot_every_steps=2"},
       "--set: checkpoint.snapshot_every_steps: must be 0 with offload.delayed_update.after_steps 5, got 2: a snapshot "
       "applies the gradient that is held back, so that the run's bits would depend on when it is taken; set either to "
       "0"},
      {{"checkpoint.stall_timeout_seconds=0.5"},
       "--set: checkpoint.stall_timeout_seconds: must be 0, or 1 to 1e6 seconds, got 0.5"},
      {{"data.on_change=stop"}, "--set: data.on_change: must be warn or refuse, got \"stop\""},
      {{"checkpoint.keep=0"}, "--set: checkpoint.keep: must be 1 to 1000000000, got 0"},
      {{"collectives=in_process", "parallel.workers=2"},
       "--set: collectives: in_process supports a single worker, got 2; use ucx"},
      {{"restart.hang_timeout_seconds=1"},
       "--set: restart.hang_timeout_seconds: must be 0, or restart.heartbeat_timeout_seconds to 1e6 seconds, got 1"},
      {{"restart.spares=2", "restart.max_per_rank=0"},
       "--set: restart.spares: must be 0 where restart.max_per_rank is 0 and the first loss ends the run, got 2"},
      {{"restart.min_workers=2"}, "--set: restart.min_workers: must be <= parallel.workers, 1, got 2"},
      {{"parallel.workers=8", "parallel.tensor=2", "restart.min_workers=5"},
       "--set: restart.min_workers: must be a whole number of tensor groups of 2 workers, got 5; 4 or 6 is"},
      {{"parallel.workers=8", "parallel.tensor=4", "restart.min_workers=1"},
       "--set: restart.min_workers: must be a whole number of tensor groups of 4 workers, got 1; 4 is"},
      {{"integrity.every_steps=-1"}, "--set: integrity.every_steps: must be 0 to 1000000000000, got -1"},
      {{"integrity.every_steps=5"}, "--set: integrity.every_steps: must be 0 for a single worker: nothing is compared"},
      {{"integrity.replay_every_steps=5"},
       "--set: integrity.replay_every_steps: must be 0 for a single worker: nothing is compared"},
      {{"integrity.every_steps=5", "parallel.workers=2", "parallel.zero_stage=3"},
       "--set: integrity.every_steps: must be 0 in parallel.zero_stage 3, where no parameter is kept twice"},
      {{"on_divergence=rolback"},
       "--set: on_divergence: must be stop or rollback, got \"rolback\"; did you mean rollback?"},
      {{"divergence.spike_factor=1"}, "--set: divergence.spike_factor: must be 0, or > 1 and <= 1e6, got 1"},
      {{"divergence.window_steps=0"}, "--set: divergence.window_steps: must be 1 to 1000, got 0"},
      {{"divergence.max_rollbacks=0"}, "--set: divergence.max_rollbacks: must be 1 to 1000, got 0"},
      {{"divergence.max_rollbacks=2"},
       "--set: divergence.max_rollbacks: needs on_divergence rollback, which is stop; leave it out"},
      {{"divergence.window_steps=16"},
       "--set: divergence.window_steps: needs divergence.spike_factor, which is 0; leave it out"},
      {{"on_divergence=rollback", "divergence.window_steps=16", "divergence.spike_factor=0"},
       "--set: divergence.window_steps: needs divergence.spike_factor, which is 0; leave it out"},
      {{"restart.heartbeat_timeout_seconds=0"},
       "--set: restart.heartbeat_timeout_seconds: must be 0.1 to 1e6 seconds, got 0"},
  };
  for (const BadConfig& bad : cases) {
    const absl::StatusOr<v1::Config> config = Parse(kSmallest, bad.sets);
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << bad.sets[0];
    EXPECT_EQ(std::string(config.status().message()), bad.message) << bad.sets[0];
  }
}

TEST(ConfigCheck, KnowsWhichDevicesTheBuildHas) {
  const std::vector<std::string> kinds = device::DeviceKindsBuilt();
  const bool cuda = std::find(kinds.begin(), kinds.end(), "cuda") != kinds.end();
  const auto said = [](const char* set, const char* other = "seed=1") {
    return std::string(Parse("model: {preset: gpt2-tiny}\ndata: {train: [a]}", {set, other}).status().message());
  };
  EXPECT_EQ(said("device=cuda"),
            cuda ? "" : "--set: device: cuda is not available: this build has no CUDA; use auto or cpu");
  EXPECT_EQ(
      said("collectives=nccl"),
      cuda ? "" : "--set: collectives: nccl is not available: this build has no CUDA; use auto, ucx or in_process");
  EXPECT_EQ(said("device=gpu"), cuda ? "--set: device: must be auto, cpu or cuda, got \"gpu\"; did you mean cuda?"
                                     : "--set: device: must be auto or cpu, got \"gpu\"");
  if (cuda) {
    EXPECT_EQ(said("collectives=nccl", "device=cpu"),
              "--set: collectives: nccl needs device cuda; use auto, ucx or in_process");
  }
}

// A configuration that a run passes to its processes reads back as the same, up to the most bytes that are allowed.
TEST(ConfigCheck, AConfigurationMayHaveSoManyBytes) {
  absl::StatusOr<v1::Config> config = Parse(kSmallest);
  ASSERT_TRUE(config.ok()) << config.status();
  for (int file = 0; file < 20'000; ++file) config->mutable_data()->add_train(absl::StrCat("data/part-", file, ".txt"));
  const auto fill = [&](int64_t bytes) {
    std::string& last = *config->mutable_data()->mutable_train(0);
    last.resize(last.size() + static_cast<size_t>(bytes) - TextOf(*config).size(), 'x');
    return ParseConfig(TextOf(*config), "run.json", {});
  };
  const absl::StatusOr<v1::Config> read = fill(coordinator::kMostConfigBytes);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->SerializeAsString(), config->SerializeAsString());
  EXPECT_LE(static_cast<int64_t>(read->ByteSizeLong()), coordinator::kMostConfigBytes);
  const absl::Status refused = fill(coordinator::kMostConfigBytes + 1).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(refused.message()),
      testing::HasSubstr("data.train: the complete configuration has 1048577 bytes as JSON; at most 1048576 are "
                         "allowed: name a directory instead of its files"));
}

TEST(ConfigCheck, NamesTheLineOfTheFile) {
  EXPECT_EQ(Parse("data: {train: [a]}").status().message(),
            "run.yaml: model.layers: is missing; give it, or a model.preset such as gpt2-124m");
  EXPECT_EQ(Parse("model:\n  preset: gpt2-tiny\n  heads: 7\ndata: {train: [a]}").status().message(),
            "run.yaml:3: model.heads: 7 heads do not divide model.hidden, 64; 8 would");
  EXPECT_EQ(Parse("model: {preset: gpt2-tiny}\ndata: {train: [a.bin], format: tokens_u16}").status().message(),
            "run.yaml: model.vocab: is missing; token files do not say how large the vocabulary is, so give it");
}

TEST(LoadConfig, TakesAMissingFileAsBadUsage) {
  const absl::Status missing = LoadConfig("no/such.yaml", {}).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(missing.message().find("no/such.yaml"), absl::string_view::npos);
  EXPECT_EQ(LoadConfig("/", {}).status().message(), "/: a directory, not a configuration file");
}

absl::StatusOr<v1::Config> ParseModel(const std::string& model, const std::string& more = "") {
  return ParseConfig("model: {" + model + "}\ndata: {train: [a], format: tokens_u16}\n" + more, "run.yaml", {});
}

TEST(ConfigLlama, DefaultsAreTheFamilysAndThePresets) {
  const v1::Config sizes =
      ParseModel("family: llama, layers: 2, hidden: 12, heads: 6, kv_heads: 2, intermediate: 20, context: 8, vocab: 31")
          .value();
  EXPECT_EQ(sizes.model().head_size(), 2);
  EXPECT_EQ(sizes.model().rope_theta(), 1e4);
  EXPECT_EQ(sizes.model().norm_epsilon(), 1e-5);
  EXPECT_EQ(sizes.model().rope_scaling().type(), "none");
  const v1::Config preset = ParseModel("preset: llama3.2-1b, context: 2048").value();
  EXPECT_EQ(preset.model().rope_scaling().type(), "llama3");
  EXPECT_EQ(preset.model().rope_scaling().factor(), 32);
  EXPECT_TRUE(preset.model().tied());
  EXPECT_EQ(preset.model().kv_heads(), 8);
  EXPECT_EQ(preset.model().context(), 2048);
  EXPECT_EQ(ParseModel("preset: smollm2-135m")->model().rope_scaling().type(), "none");
  EXPECT_FALSE(ParseModel("preset: gpt2-124m")->model().has_rope_scaling());
  // As `train` writes them for its processes.
  for (const v1::Config& config : {sizes, preset}) {
    EXPECT_EQ(ParseConfig(TextOf(config), "config.json", {})->SerializeAsString(), config.SerializeAsString());
  }
}

TEST(ConfigLlama, WhatDoesNotFitIsNamed) {
  const auto error = [](const std::string& model, const std::string& more = "") {
    const absl::Status status = ParseModel(model, more).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << model;
    return std::string(status.message());
  };
  EXPECT_THAT(error("preset: gpt2-124m, rope_theta: 100"), HasSubstr("model.family: is gpt2"));
  EXPECT_THAT(error("preset: gpt2-124m, rope_scaling: {type: linear, factor: 2}"), HasSubstr("model.family: is gpt2"));
  EXPECT_THAT(error("preset: gpt2-124m, kv_heads: 6"), HasSubstr("model.kv_heads: must equal model.heads"));
  EXPECT_THAT(error("preset: llama3-8b, kv_heads: 5"), HasSubstr("model.kv_heads: must divide model.heads, 32"));
  EXPECT_THAT(error("preset: llama3-8b, head_size: 7"), HasSubstr("model.head_size: must be even"));
  EXPECT_THAT(error("preset: llama3-8b, rope_scaling: {type: linear}"),
              HasSubstr("model.rope_scaling.factor: must be >= 1"));
  EXPECT_THAT(error("preset: llama3-8b, rope_scaling: {type: llama3, factor: 8}"),
              HasSubstr("model.rope_scaling.high_freq_factor: must be above"));
  EXPECT_THAT(error("preset: llama3-8b, rope_scaling: {type: yarn}"), HasSubstr("must be none, linear or llama3"));
}

// A run of a PyTorch module before it has been looked at, and as the Python package completes it.
constexpr char kTorch[] =
    "model: {torch: 'finetune:build'}\ndata: {samples: 100, validation_samples: 7}\nprecision: fp32\n";
constexpr char kRecord[] =
    "model:\n"
    "  torch: 'finetune:build'\n"
    "  foreign: {\"units\": [{\"name\": \"root\", \"tensors\": [{\"name\": \"1\", \"shape\": [3, 2], \"decay\": "
    "true}]},\n"
    "    {\"name\": \"(buffers)\", \"tensors\": [{\"name\": \"2\", \"shape\": [8], \"buffer\": {\"dtype\": \"F32\", "
    "\"shape\": "
    "[2]}}]}],\n"
    "    \"training\": [{\"what\": \"ACQUIRE\", \"unit\": 0}, {\"what\": \"GRADIENT\", \"unit\": 0},\n"
    "      {\"what\": \"DELIVER\", \"unit\": 0}, {\"what\": \"RELEASE\", \"unit\": 0},\n"
    "      {\"what\": \"GRADIENT\", \"unit\": 1}, {\"what\": \"DELIVER\", \"unit\": 1}],\n"
    "    \"evaluation\": [], \"flops_per_sample\": 1.5e3, \"config_json\": \"{\\n}\\n\"}\n"
    "data: {samples: 100}\nprecision: fp32\ninit_from: start\n";

TEST(TorchConfig, NeedsNoSizes) {
  const absl::StatusOr<v1::Config> config = Parse(kTorch);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model().family(), "torch");
  EXPECT_EQ(config->model().context(), 1);
  EXPECT_EQ(config->model().layers(), 0);
  EXPECT_EQ(config->device(), "cpu");
  EXPECT_EQ(config->evaluate().every_steps(), 100);
}

TEST(TorchConfig, TheRecordIsReadAndWrittenAgain) {
  ConfigDraft draft;
  draft.file = "run.yaml";
  ASSERT_TRUE(ReadConfigText(kRecord, draft).ok());
  const v1::ForeignModel& foreign = draft.config.model().foreign();
  EXPECT_EQ(foreign.units(0).tensors(0).name(), "1");  // quoted in the JSON, so it stays a string
  EXPECT_EQ(foreign.units(1).tensors(0).buffer().dtype(), "F32");
  EXPECT_EQ(foreign.flops_per_sample(), 1500);
  EXPECT_EQ(foreign.training(2).what(), v1::ForeignEvent::DELIVER);
  EXPECT_EQ(foreign.config_json(), "{\n}\n");
  v1::Config complete = *Parse(kTorch);
  *complete.mutable_model()->mutable_foreign() = foreign;
  ConfigDraft again;
  again.file = "config.json";
  ASSERT_TRUE(ReadConfigText(TextOf(complete), again).ok());
  EXPECT_EQ(again.config.model().foreign().SerializeAsString(), foreign.SerializeAsString());
  draft = {};
  draft.file = "run.yaml";
  EXPECT_EQ(std::string(ReadConfigText("model: {foreign: {unis: []}}", draft).message()),
            "run.yaml:1: model.foreign: unis: unknown key");
  draft = {};
  draft.file = "run.yaml";
  EXPECT_EQ(std::string(ReadConfigText("model: {foreign: 3}", draft).message()),
            "run.yaml:1: model.foreign: must be a record, got \"3\"");
}

TEST(TorchConfig, RefusesInOneLine) {
  const auto error = [](const std::vector<std::string>& sets) {
    return std::string(Parse(kTorch, sets).status().message());
  };
  EXPECT_EQ(error({"model.layers=2"}), "run.yaml:1: model.torch: brings its own sizes; leave out model.layers");
  EXPECT_EQ(
      error({"model.freeze=[a]"}),
      "run.yaml:1: model.torch: brings its own choice of what is trained (requires_grad in build, PEFT); leave out "
      "model.freeze");
  EXPECT_EQ(error({"optimizer.name=muon"}),
            "--set: optimizer.name: muon is not supported with model.torch, which does not say which matrices are "
            "products; use adamw");
  EXPECT_EQ(error({"loss.label_smoothing=0.1"}),
            "--set: loss.label_smoothing: must be 0 with model.torch, as loss.z_loss: the loss is the module's own");
  EXPECT_EQ(error({"precision=fp16"}), "--set: precision: fp16 is not supported with model.torch; use bf16 or fp32");
  EXPECT_EQ(error({"parallel.workers=2", "parallel.tensor=2"}),
            "--set: parallel.tensor: must be 1 with model.torch, got 2: a module is not cut into parts");
  EXPECT_EQ(error({"activation.checkpointing=block"}),
            "--set: activation.checkpointing: must be none with model.torch, got block; a module has "
            "torch.utils.checkpoint (transformers: gradient_checkpointing_enable)");
  EXPECT_EQ(error({"buffers.bucket_bytes=65536"}),
            "--set: buffers.bucket_bytes: must be 0 with model.torch, got 65536");
  EXPECT_EQ(
      error({"data.train=[a.txt]"}),
      "--set: data.train: must be left out, as data.validation, with model.torch, whose data are a dataset in Python");
  EXPECT_EQ(error({"model.family=llama"}),
            "--set: model.family: must be torch with model.torch, got llama; leave it out");
  EXPECT_EQ(error({"model.foreign={}"}), "--set: model.foreign: is written by the Python package; leave it out");
  EXPECT_EQ(std::string(Parse(kSmallest, {"data.samples=4"}).status().message()),
            "--set: data.samples: needs model.torch; leave it out");
  EXPECT_EQ(std::string(Parse(kSmallest, {"model.family=torch"}).status().message()),
            "--set: model.family: torch needs model.torch, MODULE:FUNCTION");
}

}  // namespace
}  // namespace zerofleet::cli
