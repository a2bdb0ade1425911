#!/usr/bin/env python3
"""Text and JSON lines in, text out, with a Hugging Face tokenizer: tokenized once, carried by checkpoints, exported, imported."""
import gzip
import json
import os
import shutil

import fleet

FIXTURE = fleet.ROOT / "tests/oracle/data/tokenizers/gpt2.json"


class TextInTextOut(fleet.FleetTest):
    def setUp(self):
        super().setUp()
        self.tokenizer = self.work / "tokenizer"
        self.tokenizer.mkdir()
        fixture = json.loads(FIXTURE.read_text())["tokenizer"]
        (self.tokenizer / "tokenizer.json").write_text(json.dumps(fixture))
        (self.tokenizer / "tokenizer_config.json").write_text("{}")
        text = fleet.english_like_text(40_000)
        self.text = self.work / "text.txt"
        self.text.write_text(text)
        self.lines = self.work / "lines.jsonl.gz"
        with gzip.open(self.lines, "wt") as out:
            out.writelines(json.dumps({"text": line}) + "\n" for line in text.splitlines()[:200])

    def text_config(self, name, **changes):
        return self.config(**{"data": {"train": [str(self.text), str(self.lines)], "validation": [str(self.lines)],
                                         "tokenizer": str(self.tokenizer)},
                                "evaluate": {"every_steps": 6, "batches": 2}, "schedule": {"decay": "constant"},
                                "checkpoint": {"dir": str(self.work / name)}, **changes})

    def command(self, *arguments, code=0):
        done = self.run_command(*arguments)
        self.assertEqual(done.code, code, done.err)
        return done

    def test_a_run_on_text_is_a_run_on_its_tokens(self):
        text = self.train(self.text_config("text"))
        self.assertIn("train: text and jsonl, ", text.err)
        self.assertIn(" of 201 documents, ", text.err)
        self.assertEqual(len(list((self.work / "text/.tokens").glob("*.tokens"))), 2)
        done = {}
        for name, data in (("train", self.text), ("lines", self.lines)):
            done[name] = self.work / f"{name}.u16"
            said = self.command("tokenize", "--tokenizer", self.tokenizer, "--output", done[name], data).out
            self.assertIn("tokens_u16", said)
        tokens = self.train(self.text_config("tokens", data={"train": [str(done["train"]), str(done["lines"])],
                                                             "validation": [str(done["lines"])],
                                                             "tokenizer": str(self.tokenizer)}))
        self.assert_same_bits(text.column("loss"), tokens.column("loss"), "the same tokens")
        self.assertEqual(*({each["step"]: each["loss"] for each in run.of("evaluate")} for run in (text, tokens)))
        self.assertFalse((self.work / "tokens/.tokens").exists())

    def test_text_is_tokenized_once_and_the_checkpoint_has_all_that_is_needed(self):
        config = self.text_config("run")
        whole = self.train({**config, "checkpoint": {"dir": str(self.work / "whole")}})
        half = self.train({**config, "steps": max(whole.column("loss")) // 2})
        kept = sorted((path, path.stat().st_mtime_ns) for path in (self.work / "run/.tokens").iterdir())
        again = self.train(config)
        self.assertEqual(kept, sorted((path, path.stat().st_mtime_ns) for path in (self.work / "run/.tokens").iterdir()))
        self.assert_same_bits(whole.column("loss"), {**half.column("loss"), **again.column("loss")}, "a run that went on")
        shutil.move(self.tokenizer, self.work / "elsewhere")
        said = json.loads(self.command("generate", "--checkpoint", self.work / "run", "--prompt", "The ", "--tokens", "12",
                                       "--temperature", "0", "--json").out)
        self.assertEqual(said["tokens"], 12)
        streamed = self.command("generate", "--checkpoint", self.work / "run", "--prompt", "The ", "--tokens", "12",
                                "--temperature", "0").out
        self.assertEqual(streamed, "The " + said["text"] + "\n")
        prompts = self.work / "prompts.jsonl"
        prompts.write_text('{"prompt": "The "}\n{"prompt": "A "}\n')
        several = self.command("generate", "--checkpoint", self.work / "run", "--prompts", prompts, "--tokens", "12",
                               "--temperature", "0", "--json").out.splitlines()
        self.assertEqual([json.loads(line)["prompt"] for line in several], ["The ", "A "])
        self.assertEqual(json.loads(several[0])["text"], said["text"])
        printed = self.command("generate", "--checkpoint", self.work / "run", "--prompts", prompts, "--tokens", "12",
                               "--temperature", "0").out
        self.assertEqual(printed, "\n".join(f"{each['prompt']}{each['text']}\n" for each in map(json.loads, several)))
        template = fleet.latest_checkpoint(self.work / "run") / "chat_template.jinja"
        template.write_text("{{ messages[0].content }}")
        messages = [{"role": "user", "content": "The "}]
        prompts.write_text(json.dumps({"messages": messages}))
        answered = json.loads(self.command("generate", "--checkpoint", self.work / "run", "--prompts", prompts, "--chat",
                                           "--tokens", "12", "--temperature", "0", "--json").out)
        self.assertEqual((answered["messages"], answered.get("prompt")), (messages, None))
        template.unlink()
        refused = self.command("generate", "--checkpoint", self.work / "run", "--chat", "--prompt", "The ", code=2).err
        self.assertIn("no chat template", refused)
        text = self.command("eval", "--checkpoint", self.work / "run", "--data", self.lines, "--json")
        self.assertLess(json.loads(text.out)["loss"], whole.column("loss")[1])
        self.command("checkpoint", "export", self.work / "run", self.work / "hf")
        self.assertTrue((self.work / "hf/tokenizer.json").exists())
        imported = self.work / "imported/step-00000000"
        self.command("checkpoint", "import", self.work / "hf", imported)
        tuned = self.text_config("tuned", init_from=str(imported))
        del tuned["model"], tuned["data"]["tokenizer"]
        self.assertLess(self.train(tuned).column("loss")[1], whole.column("loss")[1])
        (imported / "tokenizer.json").write_text("{}")
        self.assertIn("tokenizer.json", self.command("checkpoint", "verify", imported, code=3).err)

    def test_eval_counts_what_the_run_counts(self):
        (self.tokenizer / "tokenizer_config.json").write_text('{"eos_token": "<|end|>"}')
        pairs = self.work / "pairs.jsonl"
        words = self.text.read_text().split()
        pairs.write_text("".join(json.dumps({"prompt": " ".join(words[i:i + 7]), "completion": " " + " ".join(words[i + 7:i + 10])})
                                 + "\n" for i in range(0, 600, 10)))
        losses = set()
        for packing, loss_on in ((False, "assistant"), (True, "assistant"), (True, "all")):
            data = self.lines if loss_on == "all" else pairs
            name = f"{packing}-{loss_on}"
            run = self.train(self.text_config(name, data={"train": [str(data)], "validation": [str(data)], "packing": packing,
                                                          "tokenizer": str(self.tokenizer), "loss_on": loss_on},
                                              evaluate={"every_steps": 6, "batches": 1000}))
            said = json.loads(self.command("eval", "--checkpoint", self.work / name, "--data", data, "--json").out)
            self.assertAlmostEqual(said["loss"], run.of("evaluate")[-1]["loss"], delta=1e-4)
            losses.add(said["loss"])
        self.assertEqual(len(losses), 3)
        # A text has no answers, so all of its tokens count.
        said = json.loads(self.command("eval", "--checkpoint", self.work / "False-assistant", "--data", self.text, "--json").out)
        self.assertEqual(said["tokens"] % 32, 0)

    def test_another_tokenizer_is_refused(self):
        config = self.text_config("run")
        self.train(config)
        path = self.tokenizer / "tokenizer.json"
        other = json.loads(path.read_text())
        other["model"]["merges"] = other["model"]["merges"][:-1]
        path.write_text(json.dumps(other))
        refused = self.train_anyhow({**config, "steps": 100})
        self.assertEqual(refused.code, 3)
        self.assertIn("is of another tokenizer: its digest is ", refused.error_lines()[0])
        other["model"]["type"] = "Unigram"
        path.write_text(json.dumps(other))
        refused = self.train_anyhow({**config, "steps": 100})
        self.assertEqual(refused.code, 2)
        self.assertIn('model.type: "Unigram" is not supported', refused.error_lines()[0])

    def test_what_is_no_text_is_refused_in_a_line_and_leaves_nothing(self):
        bad = self.work / "bad.jsonl"
        bad.write_text('{"text": "a"}\n{"txt": "b"}\n')
        refused = self.train_anyhow(self.text_config("run", evaluate={"every_steps": 0},
                                                     data={"train": [str(bad)], "tokenizer": str(self.tokenizer)}))
        self.assertEqual(refused.code, 3, refused.err)
        self.assertEqual(refused.error_lines(), [f'zerofleet: data.train[0]: {bad}: line 2: has no "text" that is a string'])
        out = self.work / "out.u16"
        refused = self.command("tokenize", "--tokenizer", self.tokenizer, "--output", out, self.text, bad, code=3)
        self.assertIn(f"{bad}: line 2", refused.err)
        bad.write_text('{"text": "a"}\n')
        done = self.command("tokenize", "--tokenizer", self.tokenizer, "--output", out, self.text, bad)  # continues after the failed attempt
        self.assertIn("2 documents", done.out)
        self.assertFalse(os.path.exists(f"{out}.parts"))
        self.command("tokenize", "--tokenizer", self.tokenizer, "--output", out, self.text, code=2)


if __name__ == "__main__":
    fleet.main()
