// The tables; see key_words.h. A word is added by adding a row.
#include "cli/config/key_words.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace zerofleet::cli {
namespace {

constexpr char kAccumulation[] =
    "accumulation steps are global_sequences / (workers x micro_sequences), so set batch.micro_sequences to choose "
    "them";
constexpr char kPerWorker[] = "sequences per worker per forward pass; batch.global_sequences is the whole step's";
constexpr char kWholeBatch[] = "sequences per optimizer step, over all workers";
constexpr char kMixed[] = "one of bf16, fp16 and fp32";
constexpr char kDecays[] = "cosine, linear, constant, wsd or restarts";
constexpr char kNoDropout[] = "there is no dropout";
constexpr char kNoClipValue[] = "the largest global L2 norm; single values are not clipped";
constexpr char kReport[] = "give --report FILE on the command line; every step is reported";
constexpr char kResume[] = "give --resume auto, none or PATH on the command line";
constexpr char kFitted[] = "the decay always ends at steps; schedule.decay_steps is its length with wsd";
constexpr char kStage[] = "0, 1, 2 or 3; buckets and overlap need no settings";
constexpr char kCheckpointing[] = "none, block, selective or {every: n}";
constexpr char kLoss[] = "the loss is scaled dynamically with precision: fp16";
constexpr char kBetas[] = "optimizer.beta1 and optimizer.beta2 are two keys";
constexpr char kPlainMomentum[] = "sgd has plain momentum, without dampening and without Nesterov's variant";
constexpr char kOneMachine[] = "ranks in all, over all machines";
constexpr char kHeads[] = "query heads; model.hidden / model.heads is a head's size";

constexpr KeyWord kWords[] = {
    // Learning rate and schedule
    {"lr", "optimizer.learning_rate", ""},
    {"max_lr", "optimizer.learning_rate", "the peak, after warm-up"},
    {"peak_lr", "optimizer.learning_rate", "the peak, after warm-up"},
    {"base_lr", "optimizer.learning_rate", "the peak, after warm-up"},
    {"init_lr", "optimizer.learning_rate", "the peak, after warm-up"},
    {"min_lr", "schedule.min_learning_rate", ""},
    {"lr_end", "schedule.min_learning_rate", ""},
    {"end_lr", "schedule.min_learning_rate", ""},
    {"warmup", "schedule.warmup_steps", ""},
    {"warmup_iters", "schedule.warmup_steps", ""},
    {"warmup_num_steps", "schedule.warmup_steps", ""},
    {"num_warmup_steps", "schedule.warmup_steps", ""},
    {"lr_warmup_iters", "schedule.warmup_steps", ""},
    {"lr_warmup_steps", "schedule.warmup_steps", ""},
    {"warmup_ratio", "schedule.warmup_steps", "steps, not a fraction"},
    {"warmup_fraction", "schedule.warmup_steps", "steps, not a fraction"},
    {"lr_warmup_fraction", "schedule.warmup_steps", "steps, not a fraction"},
    {"lr_scheduler", "schedule.decay", kDecays},
    {"scheduler", "schedule.decay", kDecays},
    {"lr_scheduler_type", "schedule.decay", kDecays},
    {"lr_schedule", "schedule.decay", kDecays},
    {"lr_decay_style", "schedule.decay", kDecays},
    {"decay_type", "schedule.decay", kDecays},
    {"schedule_name", "schedule.decay", kDecays},
    {"schedule_type", "schedule.decay", kDecays},
    {"decay_lr", "schedule.decay", "constant keeps the learning rate"},
    {"lr_decay_iters", "", kFitted},
    {"lr_decay_steps", "", kFitted},
    {"lr_decay_ratio", "", kFitted},
    {"decay_ratio", "schedule.decay_steps", "steps, not a ratio, of schedule.decay: wsd"},
    {"min_lr_factor", "schedule.min_learning_rate", "a rate, not a factor"},
    // Optimizer
    {"optim", "optimizer.name", "adamw, sgd or muon"},
    {"optimizer_type", "optimizer.name", "adamw, sgd or muon"},
    {"wd", "optimizer.weight_decay", ""},
    {"l2", "optimizer.weight_decay", ""},
    {"eps", "optimizer.epsilon", ""},
    {"adam_eps", "optimizer.epsilon", ""},
    {"adam_epsilon", "optimizer.epsilon", ""},
    {"betas", "optimizer.beta1", kBetas},
    {"adam_beta1", "optimizer.beta1", ""},
    {"adam_beta2", "optimizer.beta2", ""},
    {"b1", "optimizer.beta1", ""},
    {"b2", "optimizer.beta2", ""},
    {"momentum", "optimizer.momentum", "of sgd; adamw's is optimizer.beta1"},
    {"sgd_momentum", "optimizer.momentum", ""},
    {"nesterov", "", kPlainMomentum},
    {"dampening", "", kPlainMomentum},
    {"gradient_clipping", "optimizer.grad_clip", ""},
    {"clip_grad", "optimizer.grad_clip", ""},
    {"grad_norm_clip", "optimizer.grad_clip", ""},
    {"max_grad_norm", "optimizer.grad_clip", ""},
    {"max_norm", "optimizer.grad_clip", ""},
    {"gradient_clip_val", "optimizer.grad_clip", ""},
    {"clip_value", "optimizer.grad_clip", kNoClipValue},
    {"use_ema", "ema.decay", "such as 0.999"},
    {"ema_decay", "ema.decay", ""},
    {"ema_beta", "ema.decay", ""},
    {"swa_decay", "ema.decay", ""},
    {"update_after_step", "ema.start_step", ""},
    {"evaluate_ema_weights_instead", "evaluate.weights", "ema evaluates the average"},
    // Batch
    {"rampup_batch_size", "batch.schedule", "an entry for each increment, by steps"},
    {"batch_size_schedule", "batch.schedule", ""},
    {"batch_size_warmup", "batch.schedule", ""},
    {"batch_size", "batch.global_sequences", kWholeBatch},
    {"global_batch_size", "batch.global_sequences", kWholeBatch},
    {"train_batch_size", "batch.global_sequences", kWholeBatch},
    {"total_batch_size", "batch.global_sequences", "sequences per optimizer step, not tokens"},
    {"gradient_accumulation_steps", "batch.global_sequences", kAccumulation},
    {"grad_accum_steps", "batch.global_sequences", kAccumulation},
    {"grad_accumulation_steps", "batch.global_sequences", kAccumulation},
    {"accumulate_grad_batches", "batch.global_sequences", kAccumulation},
    {"grad_accum", "batch.global_sequences", kAccumulation},
    {"micro_batch", "batch.micro_sequences", kPerWorker},
    {"gradient_checkpointing", "activation.checkpointing", kCheckpointing},
    {"activation_checkpointing", "activation.checkpointing", kCheckpointing},
    {"recompute_granularity", "activation.checkpointing", kCheckpointing},
    {"recompute_num_layers", "activation.checkpointing", kCheckpointing},
    {"no_sync", "reduce.every", "step sends gradients once a step"},
    {"micro_batch_size", "batch.micro_sequences", kPerWorker},
    {"microbatch_size", "batch.micro_sequences", kPerWorker},
    {"local_batch_size", "batch.micro_sequences", kPerWorker},
    {"device_batch_size", "batch.micro_sequences", kPerWorker},
    {"train_micro_batch_size_per_gpu", "batch.micro_sequences", kPerWorker},
    {"per_device_train_batch_size", "batch.micro_sequences", kPerWorker},
    {"per_gpu_train_batch_size", "batch.micro_sequences", kPerWorker},
    {"per_device_batch_size", "batch.micro_sequences", kPerWorker},
    {"eval_batch_size", "batch.micro_sequences", "an evaluation uses the same"},
    {"per_device_eval_batch_size", "batch.micro_sequences", "an evaluation uses the same"},
    // Length of the run
    {"max_steps", "steps", ""},
    {"num_steps", "steps", ""},
    {"n_steps", "steps", ""},
    {"total_steps", "steps", ""},
    {"train_steps", "steps", ""},
    {"training_steps", "steps", ""},
    {"num_training_steps", "steps", ""},
    {"total_num_steps", "steps", ""},
    {"max_iters", "steps", ""},
    {"train_iters", "steps", ""},
    {"num_iterations", "steps", ""},
    {"iterations", "steps", ""},
    {"num_epochs", "epochs", ""},
    {"max_epochs", "epochs", ""},
    {"num_train_epochs", "epochs", ""},
    {"max_tokens", "tokens", "steps become as many as these need"},
    {"label_smoothing_factor", "loss.label_smoothing", ""},
    {"z_loss_weight", "loss.z_loss", ""},
    {"metric_for_best_model", "evaluate.best", "all, or the name of a validation set"},
    {"load_best_model_at_end", "evaluate.best", "the best checkpoint is kept; all, or the name of a validation set"},
    {"early_stopping_patience", "evaluate.patience", ""},
    {"lora_r", "model.lora.rank", ""},
    {"lora_rank", "model.lora.rank", ""},
    {"lora_alpha", "model.lora.alpha", ""},
    {"lora_dropout", "model.lora.dropout", "only 0 is built"},
    {"lora_target_modules", "model.lora.targets", ""},
    {"target_modules", "model.lora.targets", ""},
    {"freeze_layers", "model.freeze", "patterns of tensors' names"},
    {"train_samples", "steps", "one step takes batch.global_sequences samples"},
    // Model
    {"model_name", "model.preset", ""},
    {"model_type", "model.family", ""},
    {"model_name_or_path", "init_from", "a step directory, such as `zerofleet checkpoint import` writes"},
    {"pretrained", "init_from", "a step directory, such as `zerofleet checkpoint import` writes"},
    {"pretrained_checkpoint", "init_from", "a step directory"},
    {"architecture", "model.family", ""},
    {"flavor", "model.preset", ""},
    {"num_layers", "model.layers", ""},
    {"n_layer", "model.layers", ""},
    {"n_layers", "model.layers", ""},
    {"num_hidden_layers", "model.layers", ""},
    {"depth", "model.layers", ""},
    {"n_head", "model.heads", ""},
    {"n_heads", "model.heads", ""},
    {"num_heads", "model.heads", ""},
    {"num_attention_heads", "model.heads", ""},
    {"head_dim", "model.heads", kHeads},
    {"head_size", "model.heads", kHeads},
    {"n_kv_head", "model.kv_heads", ""},
    {"n_kv_heads", "model.kv_heads", ""},
    {"num_kv_heads", "model.kv_heads", ""},
    {"num_query_groups", "model.kv_heads", ""},
    {"num_key_value_heads", "model.kv_heads", ""},
    {"d_model", "model.hidden", ""},
    {"n_embd", "model.hidden", ""},
    {"dim", "model.hidden", ""},
    {"width", "model.hidden", ""},
    {"embed_dim", "model.hidden", ""},
    {"embedding_dim", "model.hidden", ""},
    {"hidden_dim", "model.hidden", ""},
    {"hidden_size", "model.hidden", ""},
    {"d_ff", "model.intermediate", ""},
    {"ffn_dim", "model.intermediate", ""},
    {"n_inner", "model.intermediate", ""},
    {"ffn_hidden_size", "model.intermediate", ""},
    {"intermediate_size", "model.intermediate", ""},
    {"mlp_ratio", "model.intermediate", "the width itself; 4 x model.hidden by default"},
    {"seq_len", "model.context", ""},
    {"seq_length", "model.context", ""},
    {"sequence_length", "model.context", ""},
    {"max_seq_len", "model.context", ""},
    {"max_seq_length", "model.context", ""},
    {"max_sequence_length", "model.context", ""},
    {"max_length", "model.context", ""},
    {"block_size", "model.context", ""},
    {"context_length", "model.context", ""},
    {"ctx_len", "model.context", ""},
    {"n_ctx", "model.context", ""},
    {"n_positions", "model.context", ""},
    {"max_position_embeddings", "model.context", ""},
    {"vocab_size", "model.vocab", ""},
    {"padded_vocab_size", "model.vocab", ""},
    {"dropout", "", kNoDropout},
    {"hidden_dropout", "", kNoDropout},
    {"attention_dropout", "", kNoDropout},
    // Precision
    {"bf16", "precision", kMixed},
    {"fp16", "precision", kMixed},
    {"fp32", "precision", kMixed},
    {"amp", "precision", kMixed},
    {"dtype", "precision", kMixed},
    {"torch_dtype", "precision", kMixed},
    {"param_dtype", "precision", kMixed},
    {"mixed_precision", "precision", kMixed},
    {"mixed_precision_param", "precision", kMixed},
    {"loss_scale", "precision", kLoss},
    {"initial_scale_power", "precision", kLoss},
    // Parallelism
    {"zero", "parallel.zero_stage", kStage},
    {"stage", "parallel.zero_stage", kStage},
    {"zero_optimization", "parallel.zero_stage", kStage},
    {"deepspeed", "parallel.zero_stage", kStage},
    {"fsdp", "parallel.zero_stage", "fully sharded is stage 3"},
    {"sharding_strategy", "parallel.zero_stage", "FULL_SHARD is 3, SHARD_GRAD_OP 2, NO_SHARD 0"},
    {"use_distributed_optimizer", "parallel.zero_stage", "a distributed optimizer is stage 1"},
    {"num_gpus", "parallel.workers", kOneMachine},
    {"n_gpus", "parallel.workers", kOneMachine},
    {"gpus", "parallel.workers", kOneMachine},
    {"ngpu", "parallel.workers", kOneMachine},
    {"nproc", "parallel.workers", kOneMachine},
    {"nproc_per_node", "parallel.workers", kOneMachine},
    {"num_processes", "parallel.workers", kOneMachine},
    {"num_workers", "parallel.workers", kOneMachine},
    {"world_size", "parallel.workers", kOneMachine},
    {"devices", "parallel.workers", kOneMachine},
    {"num_nodes", "parallel.workers", kOneMachine},
    {"nnodes", "parallel.workers", kOneMachine},
    {"data_parallel_size", "parallel.workers", kOneMachine},
    {"data_parallel_degree", "parallel.workers", kOneMachine},
    {"tp", "parallel.tensor", ""},
    {"tensor_parallel", "parallel.tensor", ""},
    {"tensor_parallel_size", "parallel.tensor", ""},
    {"tensor_parallel_degree", "parallel.tensor", ""},
    {"tensor_model_parallel_size", "parallel.tensor", ""},
    {"sequence_parallel", "parallel.sequence", ""},
    {"backend", "collectives", ""},
    {"ddp_backend", "collectives", ""},
    {"distributed_backend", "collectives", ""},
    {"accelerator", "device", ""},
    // Data
    {"dataset", "data.train", ""},
    {"dataset_path", "data.train", ""},
    {"data_path", "data.train", ""},
    {"train_data", "data.train", ""},
    {"train_file", "data.train", ""},
    {"train_files", "data.train", ""},
    {"train_data_path", "data.train", ""},
    {"training_data", "data.train", ""},
    {"val", "data.validation", ""},
    {"val_data", "data.validation", ""},
    {"valid_data_path", "data.validation", ""},
    {"eval_data", "data.validation", ""},
    {"eval_dataset", "data.validation", ""},
    {"validation_file", "data.validation", ""},
    {"tokenizer_path", "data.tokenizer", ""},
    {"tokenizer_name", "data.tokenizer", ""},
    {"tokenizer_type", "data.tokenizer", ""},
    {"tokenizer_model", "data.tokenizer", ""},
    // Evaluation, checkpoints, output
    {"eval_steps", "evaluate.every_steps", ""},
    {"eval_interval", "evaluate.every_steps", ""},
    {"eval_every", "evaluate.every_steps", ""},
    {"eval_freq", "evaluate.every_steps", ""},
    {"val_check_interval", "evaluate.every_steps", ""},
    {"val_loss_every", "evaluate.every_steps", ""},
    {"evaluation_strategy", "evaluate.every_steps", "0: never"},
    {"eval_iters", "evaluate.batches", ""},
    {"save_steps", "checkpoint.every_steps", ""},
    {"save_interval", "checkpoint.every_steps", ""},
    {"save_every", "checkpoint.every_steps", ""},
    {"checkpoint_interval", "checkpoint.every_steps", ""},
    {"checkpoint_every", "checkpoint.every_steps", ""},
    {"save_total_limit", "checkpoint.keep", ""},
    {"keep_last", "checkpoint.keep", ""},
    {"keep_latest_k", "checkpoint.keep", ""},
    {"max_checkpoints", "checkpoint.keep", ""},
    {"save", "checkpoint.dir", ""},
    {"save_dir", "checkpoint.dir", ""},
    {"out_dir", "checkpoint.dir", ""},
    {"output_dir", "checkpoint.dir", ""},
    {"outdir", "checkpoint.dir", ""},
    {"checkpoint_dir", "checkpoint.dir", ""},
    {"checkpoint_path", "checkpoint.dir", ""},
    {"ckpt_dir", "checkpoint.dir", ""},
    {"load", "", kResume},
    {"resume", "", kResume},
    {"resume_from", "", kResume},
    {"resume_from_checkpoint", "", kResume},
    {"log_interval", "", kReport},
    {"log_freq", "", kReport},
    {"logging_steps", "", kReport},
    {"steps_per_print", "", kReport},
    {"report_to", "", kReport},
    {"wandb", "", kReport},
    {"wandb_log", "", kReport},
    {"tensorboard", "", kReport},
    // Recovery and the rest
    {"max_restarts", "restart.max_per_rank", ""},
    {"min_nodes", "restart.min_workers", ""},
    {"rdzv_timeout", "restart.form_timeout_seconds", ""},
    {"timeout", "restart.heartbeat_timeout_seconds", ""},
    {"random_seed", "seed", ""},
    {"data_seed", "seed", "one seed serves the weights and the order of the data"},
    {"compile", "", "there is nothing to compile"},
    {"torch_compile", "", "there is nothing to compile"},
};

struct ValueWord {
  std::string_view word, value;
};

constexpr ValueWord kValues[] = {
    {"gpu", "cuda"},
    {"nvidia", "cuda"},
    {"bfloat16", "bf16"},
    {"bfp16", "bf16"},
    {"torch.bfloat16", "bf16"},
    {"float16", "fp16"},
    {"half", "fp16"},
    {"torch.float16", "fp16"},
    {"float32", "fp32"},
    {"float", "fp32"},
    {"single", "fp32"},
    {"tf32", "fp32"},
    {"no", "fp32"},
    {"none", "constant"},
    {"adam", "adamw"},
    {"fusedadam", "adamw"},
    {"adamw_torch", "adamw"},
    {"momentum", "sgd"},
    {"gloo", "ucx"},
    {"mpi", "ucx"},
    {"tcp", "ucx"},
    {"full", "block"},
    {"gpt-2", "gpt2"},
    {"gpt", "gpt2"},
    {"uint16", "tokens_u16"},
    {"u16", "tokens_u16"},
    {"uint32", "tokens_u32"},
    {"u32", "tokens_u32"},
    {"txt", "text"},
    {"raw", "text"},
    {"cosine_annealing", "cosine"},
};

}  // namespace

std::span<const KeyWord> KeyWords() { return kWords; }

const KeyWord* FindKeyWord(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::string plain(name.substr(0, 64));
  for (char& c : plain) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto found =
      std::find_if(std::begin(kWords), std::end(kWords), [&](const KeyWord& row) { return plain == row.word; });
  return found == std::end(kWords) ? nullptr : found;
}

std::string KeyWordAdvice(const KeyWord& word) {
  if (*word.key == '\0') return word.remark;
  return absl::StrCat("use ", word.key, *word.remark == '\0' ? "" : absl::StrCat(" (", word.remark, ")"));
}

std::string_view ValueMeant(std::string_view value) {
  std::string plain(value.substr(0, 64));
  for (char& c : plain) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const ValueWord& row : kValues) {
    if (row.word == plain) return row.value;
  }
  return "";
}

}  // namespace zerofleet::cli
