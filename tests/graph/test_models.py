"""Small models of transformers by `torch.compile`, against torch in f32: the error is that of torch's own f16.

The plans are for an H200; kernels are simulated, and torch computes large ones.
"""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
transformers: Any = pytest.importorskip("transformers")

from fireiron.graph.torch_backend import plans  # noqa: E402

SMALL = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 101,
    "max_position_embeddings": 64,
}  # fmt: skip
GROUPS = {**SMALL, "num_key_value_heads": 2}
IMAGE = {"image_size": 32, "patch_size": 8, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
WHISPER = {
    "d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "vocab_size": 101,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96, "num_mel_bins": 16, "pad_token_id": 0,
    "max_source_positions": 24, "max_target_positions": 32, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1,
}  # fmt: skip
LENGTH = 16
IDS = ("input_ids",)
# By name: the class, the configuration, the inputs, and the most operations of a plan that are left to torch.
MODELS: dict[str, tuple[str, str, dict[str, Any], tuple[str, ...], int]] = {
    "bert": ("BertForMaskedLM", "BertConfig", SMALL, (*IDS, "behind"), 3),
    "roberta": ("RobertaForMaskedLM", "RobertaConfig", {**SMALL, "pad_token_id": 1}, IDS, 6),
    "gpt2": (
        "GPT2LMHeadModel", "GPT2Config",
        {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 101, "n_positions": 64}, IDS, 0,
    ),
    "t5": (
        "T5Model", "T5Config",
        {"d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 1, "num_heads": 4, "vocab_size": 101},
        (*IDS, "decoder_input_ids"), 0,
    ),
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPS, IDS, 2),
    "llama with padding in front": ("LlamaForCausalLM", "LlamaConfig", GROUPS, (*IDS, "front"), 4),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", GROUPS, IDS, 2),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**GROUPS, "head_dim": 32}, IDS, 2),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", {**GROUPS, "head_dim": 16, "sliding_window": 8}, IDS, 3),
    "phi": ("PhiForCausalLM", "PhiConfig", SMALL, IDS, 2),
    "gpt-neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", SMALL, IDS, 2),
    "bloom": (
        "BloomForCausalLM", "BloomConfig", {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 101}, IDS, 0
    ),
    "deberta": ("DebertaV2Model", "DebertaV2Config", SMALL, IDS, 0),
    "electra": ("ElectraModel", "ElectraConfig", {**SMALL, "embedding_size": 32}, IDS, 1),
    "vit": ("ViTModel", "ViTConfig", {**IMAGE, "num_attention_heads": 4}, ("pixel_values",), 0),
    "mobilebert": (
        "MobileBertModel", "MobileBertConfig",
        {**SMALL, "embedding_size": 32, "intra_bottleneck_size": 32, "true_hidden_size": 32}, IDS, 0,
    ),
    "whisper": ("WhisperModel", "WhisperConfig", WHISPER, ("input_features", "decoder_input_ids"), 1),
}  # fmt: skip


# By name: the class, the configuration, the input, and the most launches of the plans of a training step, and of these
# by torch.
STAGES = {"hidden_sizes": [16, 32], "depths": [1, 1]}
TRAINED: dict[str, tuple[str, str, dict[str, Any], str, int, int]] = {
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", {**GROUPS, "head_dim": 16, "sliding_window": 8}, *IDS, 110, 15),
    "gpt-j": (
        "GPTJForCausalLM", "GPTJConfig",
        {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 101, "rotary_dim": 8, "n_positions": 64}, *IDS, 76, 10,
    ),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", {**GROUPS, "pad_token_id": 0}, *IDS, 89, 13),
    "siglip": (
        "SiglipVisionModel", "SiglipVisionConfig", {**IMAGE, "num_attention_heads": 4}, "pixel_values", 113, 14,
    ),
    "vit": ("ViTModel", "ViTConfig", {**IMAGE, "num_attention_heads": 4}, "pixel_values", 68, 11),
    "convnext": ("ConvNextModel", "ConvNextConfig", {**STAGES, "num_stages": 2}, "pixel_values", 63, 17),
    "swin": (
        "SwinModel", "SwinConfig",
        {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4},
        "pixel_values", 139, 12,
    ),
    "segformer": (
        "SegformerModel", "SegformerConfig",
        {
            **STAGES, "num_encoder_blocks": 2, "num_attention_heads": [1, 2], "sr_ratios": [2, 1],
            "patch_sizes": [7, 3], "strides": [4, 2], "mlp_ratios": [2, 2],
        }, "pixel_values", 111, 31,
    ),
    "bert": ("BertModel", "BertConfig", SMALL, *IDS, 69, 11),
}  # fmt: skip


def drawn(name: str) -> Any:
    """Draw an input of a model."""
    if name == "pixel_values":
        return torch.randn(2, 3, 32, 32)
    if name == "input_features":
        return torch.randn(2, 16, 48)
    if name in ("behind", "front"):
        kept = torch.ones(2, LENGTH, dtype=torch.long)
        kept[1, slice(10, None) if name == "behind" else slice(0, 6)] = 0
        return kept
    return torch.randint(3, 100, (2, LENGTH))


def result(model: Any, inputs: dict[str, Any]) -> Any:
    """Run a model, and return the tensor that its loss would read."""
    made = model(**inputs)
    return made.logits if hasattr(made, "logits") else made.last_hidden_state


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_as_exact_as_torch(name: str) -> None:
    kind, config, sizes, given, left = MODELS[name]
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = getattr(transformers, kind)(getattr(transformers, config)(**sizes)).eval()
    inputs = {"attention_mask" if n in ("behind", "front") else n: drawn(n) for n in given}
    short = {n: x.half() if x.is_floating_point() else x for n, x in inputs.items()}
    with torch.no_grad():
        for parameter in model.parameters():  # gains and biases too
            parameter += torch.randn_like(parameter) * 0.05
        model.half().float()
        wanted = result(model, {n: x.float() if x.is_floating_point() else x for n, x in short.items()})
        eager = result(model.half(), short)
        before = len(plans())
        compiled = torch.compile(model, backend="fireiron", options={"arch": "sm_90a", "dependent": True})
        made = result(compiled, short)
    largest = wanted.abs().max()
    error, usual = (float((x.float() - wanted).abs().max() / largest) for x in (made, eager))
    assert error <= max(3 * usual, 4e-3), f"{error:.1e}, torch's own {usual:.1e}"
    assert max(len(plan.foreign) for plan in plans()[before:]) <= left


@pytest.mark.parametrize("name", TRAINED)
def test_gradients_of_a_model_are_as_exact_as_torch(name: str) -> None:
    kind, config, sizes, given, launches, left = TRAINED[name]
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = getattr(transformers, kind)(getattr(transformers, config)(**sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += torch.randn_like(parameter) * 0.05
        model.half().float()
    x = drawn(given)
    short = x.half() if x.is_floating_point() else x

    def gradients(call: Any, x: Any) -> Any:
        model.zero_grad(set_to_none=True)
        (result(call, {given: x}).float().square().mean() * 16).backward()
        found = (torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters())
        return torch.cat([grad.float().flatten() for grad in found])

    wanted = gradients(model, short.float() if x.is_floating_point() else x)
    eager = gradients(model.half(), short)
    before = len(plans())
    made = gradients(torch.compile(model, backend="fireiron", options={"arch": "sm_90a"}), short)
    error, usual = (float((x - wanted).abs().max() / wanted.abs().max()) for x in (made, eager))
    assert error <= max(3 * usual, 4e-3), f"{error:.1e}, torch's own {usual:.1e}"
    assert sum(len(plan.launches) for plan in plans()[before:]) <= launches
    assert sum(len(plan.foreign) for plan in plans()[before:]) <= left
