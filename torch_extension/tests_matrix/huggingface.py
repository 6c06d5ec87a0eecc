"""Architectures of transformers: a table of classes and of what their configurations need."""

import torch
import transformers
from programs import Program, training

transformers.logging.set_verbosity_error()

BATCH, LENGTH, VOCABULARY, IMAGE, CLASSES = 4, 64, 256, 64, 5

# Every configuration gets these; what a model does not know it ignores.
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "num_labels": CLASSES,
}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
TEXT = SIZES | SPECIAL | {"head_dim": 32, "num_key_value_heads": 2, "use_cache": False}
EXPERTS = TEXT | {
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "shared_expert_intermediate_size": 64,
    "n_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "q_lora_rank": 32,
    "kv_lora_rank": 32,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 32,
}
STATES = EXPERTS | {
    "state_size": 16,
    "mamba_d_state": 16,
    "mamba_n_heads": 8,
    "mamba_d_head": 32,
    "mamba_chunk_size": 32,
    "chunk_size": 32,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 4,
}
TRANSLATION = SPECIAL | {
    "vocab_size": VOCABULARY,
    "d_model": 128,
    "hidden_size": 128,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 256,
    "decoder_ffn_dim": 256,
    "max_position_embeddings": 128,
    "decoder_start_token_id": 1,
    "use_cache": False,
}
T5 = TRANSLATION | {"d_ff": 256, "d_kv": 32, "num_layers": 2, "num_heads": 4}
VISION = SIZES | {"image_size": IMAGE, "patch_size": 8}
STAGES = {
    "image_size": IMAGE,
    "num_labels": CLASSES,
    "depths": [1, 1, 1, 1],
    "hidden_sizes": [16, 32, 48, 64],
}
SWIN = {"image_size": IMAGE, "patch_size": 4, "embed_dim": 24, "depths": [2, 2], "window_size": 4}
SWIN |= {"num_heads": [2, 4], "num_labels": CLASSES}
SPEECH = SIZES | {
    "vocab_size": 32,
    "conv_dim": [32, 32, 32],
    "conv_kernel": [10, 3, 3],
    "conv_stride": [5, 2, 2],
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "apply_spec_augment": False,
    "mask_time_prob": 0.0,
    "classifier_proj_size": 32,
}
DECODER = TEXT | {"model_type": "bert", "is_decoder": True, "add_cross_attention": True}
MROPE = {"rope_parameters": {"rope_type": "default", "mrope_section": [4, 6, 6], "rope_theta": 1e4}}
QWEN_VISION = {"depth": 2, "embed_dim": 64, "num_heads": 4, "patch_size": 8, "mlp_ratio": 2}
QWEN_VISION |= {"hidden_size": 128, "out_hidden_size": 128, "intermediate_size": 128}
STAGE_NAMES = ["stage1", "stage2", "stage3", "stage4"]
SWIN4 = SWIN | {"embed_dim": 16, "depths": [1, 1, 1, 1], "num_heads": [1, 2, 2, 2]}
SWIN4 |= {"window_size": 2, "out_features": STAGE_NAMES}
DPT = {
    "num_hidden_layers": 4,
    "backbone_out_indices": [0, 1, 2, 3],
    "neck_hidden_sizes": [16, 32, 48, 64],
    "fusion_hidden_size": 32,
}
DETR = {
    "backbone_config": {"model_type": "resnet", "embedding_size": 8, "layer_type": "basic"}
    | {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "out_features": STAGE_NAMES[-1:]},
    "d_model": 64,
    "num_queries": 10,
    "num_labels": CLASSES,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
}
PAIR = {"text_config": TEXT, "vision_config": VISION, "projection_dim": 64}
# A patch is a token of the text.
IMAGE_TOKENS = (IMAGE // 16) ** 2
SEEN = VISION | {"patch_size": 16}
LLAMA = TEXT | {"model_type": "llama"}


def text(config):
    tokens = torch.randint(3, VOCABULARY, (BATCH, LENGTH))
    return {"input_ids": tokens, "labels": tokens.clone()}


def masked(config):
    return text(config) | {"labels": torch.randint(3, VOCABULARY, (BATCH, LENGTH))}


def translation(config):
    return text(config) | {"labels": torch.randint(3, VOCABULARY, (BATCH, 24))}


def pairs(config):
    return {"input_ids": text(config)["input_ids"], "return_loss": True} | pixels(config)


def pixels(config):
    channels = getattr(config, "num_channels", 3)
    return {"pixel_values": torch.randn(BATCH, channels, IMAGE, IMAGE)}


def images(config):
    return pixels(config) | {"labels": torch.randint(CLASSES, (BATCH,))}


def masked_images(config):
    patches = (IMAGE // config.patch_size) ** 2
    if hasattr(config, "mask_ratio"):
        return pixels(config) | {"noise": torch.rand(BATCH, patches)}
    return pixels(config) | {"bool_masked_pos": torch.rand(BATCH, patches) < 0.5}


def segments(config):
    return pixels(config) | {"labels": torch.randint(CLASSES, (BATCH, IMAGE, IMAGE))}


def depths(config):
    return pixels(config) | {"labels": torch.rand(BATCH, IMAGE, IMAGE) + 1}


def boxes(config):
    labels = [
        {"class_labels": torch.randint(CLASSES, (2,)), "boxes": torch.rand(2, 4) * 0.3 + 0.2}
        for _ in range(BATCH)
    ]
    return pixels(config) | {"labels": labels}


def areas(config):
    masks = (torch.rand(BATCH, 2, IMAGE, IMAGE) < 0.3).float()
    classes = torch.randint(CLASSES, (BATCH, 2))
    return pixels(config) | {"mask_labels": list(masks), "class_labels": list(classes)}


def films(config):
    frames = torch.randn(BATCH, config.num_frames, 3, IMAGE, IMAGE)
    return {"pixel_values": frames, "labels": torch.randint(CLASSES, (BATCH,))}


def words_and_image(config):
    return text(config) | pixels(config)


def spoken(config):
    """The image's tokens first, as the processors lay them out."""
    batch = words_and_image(config)
    name = "image_token_id" if hasattr(config, "image_token_id") else "image_token_index"
    batch["input_ids"][:, :IMAGE_TOKENS] = getattr(config, name)
    return batch


def tiles(config):
    batch = spoken(config)
    return batch | {"pixel_values": batch["pixel_values"].unsqueeze(1)}


def grids(config):
    """Qwen's images are lists of patches, each of two moments."""
    batch = spoken(config)
    patches = torch.randn(BATCH * 64, 3 * 2 * 8 * 8)
    kinds = (batch["input_ids"] == 3).long()
    sizes = torch.tensor([[1, 8, 8]] * BATCH)
    return batch | {"pixel_values": patches, "image_grid_thw": sizes, "mm_token_type_ids": kinds}


def described_segments(config):
    labels = (torch.rand(BATCH, IMAGE, IMAGE) < 0.5).float()
    return words_and_image(config) | {"labels": labels}


def seen_regions(config):
    regions = torch.randn(BATCH, 10, 32)
    if config.model_type == "lxmert":
        found = {"visual_feats": regions, "visual_pos": torch.rand(BATCH, 10, 4)}
    else:
        found = {"visual_embeds": regions}
    return {"input_ids": text(config)["input_ids"]} | found


def captions(config):
    return pixels(config) | {"labels": translation(config)["labels"]}


def letters(config):
    batch = masked(config)
    return {"inputs": batch["input_ids"], "labels": batch["labels"]}


def features(config):
    return {
        "input_features": torch.randn(BATCH, 160, 32),
        "labels": waves(config)["labels"],
    }


def spectrograms(config):
    return {
        "input_features": torch.randn(BATCH, config.num_mel_bins, 64),
        "labels": torch.randint(3, VOCABULARY, (BATCH, 16)),
    }


def frames(config):
    """As spectrograms, but time comes first."""
    batch = spectrograms(config)
    return batch | {"input_features": batch["input_features"].mT.contiguous()}


def audio_classes(config):
    return {
        "input_values": torch.randn(BATCH, 64, config.num_mel_bins),
        "labels": torch.randint(CLASSES, (BATCH,)),
    }


def speech_to_text(config):
    return waves(config) | {"labels": torch.randint(3, VOCABULARY, (BATCH, 16))}


def series(config):
    return {"past_values": torch.randn(BATCH, 64, 3), "future_values": torch.randn(BATCH, 16, 3)}


def lagged_series(config):
    past = config.context_length + max(config.lags_sequence)
    return {
        "past_values": torch.rand(BATCH, past),
        "past_time_features": torch.randn(BATCH, past, 2),
        "past_observed_mask": torch.ones(BATCH, past),
        "future_values": torch.rand(BATCH, config.prediction_length),
        "future_time_features": torch.randn(BATCH, config.prediction_length, 2),
    }


def decisions(config):
    return {
        "states": torch.randn(BATCH, 16, config.state_dim),
        "actions": torch.randn(BATCH, 16, config.act_dim),
        "rewards": torch.randn(BATCH, 16, 1),
        "returns_to_go": torch.randn(BATCH, 16, 1),
        "timesteps": torch.arange(16).expand(BATCH, 16),
        "attention_mask": torch.ones(BATCH, 16),
    }


def laid_out(config):
    corner = torch.randint(0, 50, (BATCH, LENGTH, 2))
    return masked(config) | {"bbox": torch.cat((corner, corner + 20), 2)}


def laid_out_image(config):
    return laid_out(config) | {"pixel_values": torch.randn(BATCH, 3, IMAGE, IMAGE)}


def waves(config):
    return {
        "input_values": torch.randn(BATCH, 4000),
        "labels": torch.randint(1, 32, (BATCH, 12)),
    }


# Title, inputs, sizes that the configurations share, and what each needs besides.
TABLE = [
    (
        "text, decoder",
        text,
        TEXT,
        {
            "ApertusForCausalLM": {},
            "ArceeForCausalLM": {},
            "BertLMHeadModel": {"is_decoder": True},
            "BigBirdForCausalLM": {"is_decoder": True},
            "BioGptForCausalLM": {},
            "BitNetForCausalLM": {},
            "BloomForCausalLM": {},
            "CTRLLMHeadModel": {"dff": 256},
            "CodeGenForCausalLM": {"rotary_dim": 16},
            "Cohere2ForCausalLM": {},
            "CohereForCausalLM": {},
            "CpmAntForCausalLM": {"dim_ff": 256, "dim_head": 32},
            "CwmForCausalLM": {},
            "DiffLlamaForCausalLM": {},
            "DogeForCausalLM": {},
            "Emu3ForCausalLM": {},
            "Ernie4_5ForCausalLM": {},
            "Exaone4ForCausalLM": {},
            "FalconForCausalLM": {"head_dim": ...},
            "FuyuForCausalLM": {},
            "GPT2LMHeadModel": {},
            "GPTBigCodeForCausalLM": {},
            "GPTJForCausalLM": {"rotary_dim": 16},
            "GPTNeoForCausalLM": {"attention_types": [[["global", "local"], 1]]},
            "GPTNeoXForCausalLM": {},
            "GPTNeoXJapaneseForCausalLM": {},
            "Gemma2ForCausalLM": {},
            "Gemma3ForCausalLM": {},
            "GemmaForCausalLM": {},
            "Glm4ForCausalLM": {},
            "GlmForCausalLM": {},
            "GraniteForCausalLM": {},
            "HeliumForCausalLM": {},
            "HunYuanDenseV1ForCausalLM": {},
            "LlamaForCausalLM": {},
            "MiniCPM3ForCausalLM": EXPERTS,
            "MinistralForCausalLM": {},
            "MistralForCausalLM": {},
            "ModernBertDecoderForCausalLM": {},
            "MoshiForCausalLM": {"ffn_dim": 512},
            "MptForCausalLM": {},
            "NanoChatForCausalLM": {},
            "NemotronForCausalLM": {},
            "OPTForCausalLM": {},
            "Olmo2ForCausalLM": {},
            "Olmo3ForCausalLM": {},
            "OlmoForCausalLM": {},
            "OpenAIGPTLMHeadModel": {},
            "PersimmonForCausalLM": {},
            "Phi3ForCausalLM": {},
            "PhiForCausalLM": {},
            "Qwen2ForCausalLM": {},
            "Qwen3ForCausalLM": {},
            "SeedOssForCausalLM": {},
            "SmolLM3ForCausalLM": {},
            "StableLmForCausalLM": {},
            "Starcoder2ForCausalLM": {},
            "TrOCRForCausalLM": {},
            "VaultGemmaForCausalLM": {},
            "XGLMForCausalLM": {},
            "XLNetLMHeadModel": {"max_position_embeddings": ..., "d_inner": 256, "d_head": 32},
        },
    ),
    (
        "text, encoder",
        masked,
        TEXT,
        {
            "AlbertForMaskedLM": {},
            "BertForMaskedLM": {},
            "BigBirdForMaskedLM": {},
            "CamembertForMaskedLM": {},
            "CanineForTokenClassification": {"num_labels": VOCABULARY},
            "ConvBertForMaskedLM": {},
            "Data2VecTextForMaskedLM": {},
            "DebertaForMaskedLM": {},
            "DebertaV2ForMaskedLM": {},
            "DistilBertForMaskedLM": {"hidden_dim": 256},
            "ElectraForMaskedLM": {},
            "ErnieForMaskedLM": {},
            "EsmForMaskedLM": {},
            "EuroBertForMaskedLM": {},
            "FNetForMaskedLM": {},
            "FlaubertWithLMHeadModel": {},
            "FunnelForMaskedLM": {"num_hidden_layers": ..., "block_sizes": [1, 1], "d_model": 128},
            "IBertForMaskedLM": {},
            "JinaEmbeddingsV3ForMaskedLM": {},
            "LayoutLMForMaskedLM": {},
            "LiltForTokenClassification": {"hidden_size": 192, "num_labels": VOCABULARY},
            "LongformerForMaskedLM": {"attention_window": 16},
            "LukeForMaskedLM": {"entity_vocab_size": 64, "entity_emb_size": 32},
            "MPNetForMaskedLM": {},
            "MegatronBertForMaskedLM": {},
            "MobileBertForMaskedLM": {},
            "ModernBertForMaskedLM": {},
            "MraForMaskedLM": {},
            "NomicBertForMaskedLM": {},
            "NystromformerForMaskedLM": {},
            "ReformerForMaskedLM": {
                "axial_pos_embds_dim": [64, 64],
                "axial_pos_shape": [8, 8],
                "attn_layers": ["local", "lsh"],
                "local_attn_chunk_length": 16,
                "lsh_attn_chunk_length": 16,
                "feed_forward_size": 256,
                "hash_seed": 0,
                "num_buckets": 4,
                "is_decoder": False,
            },
            "RemBertForMaskedLM": {},
            "RoCBertForMaskedLM": {"enable_pronunciation": False, "enable_shape": False},
            "RoFormerForMaskedLM": {},
            "RobertaForMaskedLM": {},
            "RobertaPreLayerNormForMaskedLM": {},
            "SqueezeBertForMaskedLM": {"embedding_size": 128},
            "TapasForMaskedLM": {},
            "XLMRobertaForMaskedLM": {},
            "XLMRobertaXLForMaskedLM": {},
            "XLMWithLMHeadModel": {},
            "XmodForMaskedLM": {"languages": ["en"], "default_language": "en"},
            "YosoForMaskedLM": {},
        },
    ),
    (
        "text, encoder and decoder",
        translation,
        TRANSLATION,
        {
            "BartForConditionalGeneration": {},
            "BigBirdPegasusForConditionalGeneration": {},
            "BlenderbotForConditionalGeneration": {},
            "BlenderbotSmallForConditionalGeneration": {},
            "LEDForConditionalGeneration": {
                "attention_window": 16,
                "max_encoder_position_embeddings": 128,
                "max_decoder_position_embeddings": 128,
            },
            "LongT5ForConditionalGeneration": T5 | {"local_radius": 15},
            "M2M100ForConditionalGeneration": {},
            "MBartForConditionalGeneration": {},
            "MT5ForConditionalGeneration": T5,
            "MarianMTModel": {},
            "MvpForConditionalGeneration": {},
            "PLBartForConditionalGeneration": {},
            "PegasusForConditionalGeneration": {},
            "PegasusXForConditionalGeneration": {"block_size": 16},
            "SeamlessM4TForTextToText": {},
            "T5ForConditionalGeneration": T5,
            "UMT5ForConditionalGeneration": T5,
        },
    ),
    (
        "text, mixture of experts",
        text,
        EXPERTS,
        {
            "AfmoeForCausalLM": {"num_dense_layers": 1},
            "Cohere2MoeForCausalLM": {},
            "DbrxForCausalLM": {
                "d_model": 128,
                "n_heads": 4,
                "n_layers": 2,
                "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8.0},
                "ffn_config": {"moe_num_experts": 4, "moe_top_k": 2, "ffn_hidden_size": 128},
            },
            "DeepseekV2ForCausalLM": {},
            "DeepseekV3ForCausalLM": {"head_dim": 16},
            "Dots1ForCausalLM": {},
            "Ernie4_5_MoeForCausalLM": {"moe_layer_start_index": 0, "moe_k": 2},
            "FlexOlmoForCausalLM": {},
            "Glm4MoeForCausalLM": {},
            "GptOssForCausalLM": {},
            "GraniteMoeForCausalLM": {},
            "GraniteMoeSharedForCausalLM": {"shared_intermediate_size": 64},
            "HunYuanMoEV1ForCausalLM": {"moe_topk": 2},
            "JetMoeForCausalLM": {"kv_channels": 32},
            "LongcatFlashForCausalLM": {
                "num_layers": 1,
                "ffn_hidden_size": 256,
                "expert_ffn_hidden_size": 64,
                "head_dim": 16,
                "zero_expert_num": 2,
                "moe_topk": 2,
            },
            "MiniMaxForCausalLM": {"block_size": 32},
            "MiniMaxM2ForCausalLM": {},
            "MixtralForCausalLM": {},
            "OlmoeForCausalLM": {},
            "PhimoeForCausalLM": {},
            "Qwen2MoeForCausalLM": {},
            "Qwen3MoeForCausalLM": {},
        },
    ),
    (
        "text, mixture of experts",
        translation,
        T5,
        {
            "NllbMoeForConditionalGeneration": {
                "num_experts": 4,
                "encoder_sparse_step": 1,
                "decoder_sparse_step": 1,
            },
            "SwitchTransformersForConditionalGeneration": {
                "num_experts": 4,
                "num_sparse_encoder_layers": 1,
                "num_sparse_decoder_layers": 1,
                "num_decoder_layers": 2,
            },
        },
    ),
    (
        "text, state space and recurrence",
        text,
        STATES,
        {
            "BambaForCausalLM": {"attn_layer_indices": [1]},
            "FalconH1ForCausalLM": {"mamba_d_ssm": 256},
            "FalconMambaForCausalLM": {},
            "GraniteMoeHybridForCausalLM": {
                "layer_types": ["mamba", "attention"],
                "shared_intermediate_size": 64,
            },
            "JambaForCausalLM": {"attn_layer_period": 2, "attn_layer_offset": 1},
            "KimiLinearForCausalLM": {"linear_head_dim": 16, "linear_num_heads": 4},
            "Lfm2ForCausalLM": {"layer_types": ["conv", "full_attention"]},
            "Lfm2MoeForCausalLM": {
                "layer_types": ["conv", "full_attention"],
                "num_dense_layers": 1,
            },
            "Mamba2ForCausalLM": {"num_heads": 8, "n_groups": 2},
            "MambaForCausalLM": {},
            "NemotronHForCausalLM": {
                "layers_block_type": ["mamba", "attention", "moe"],
                "num_hidden_layers": ...,
                "mamba_num_heads": 8,
                "mamba_head_dim": 32,
                "n_groups": 2,
                "ssm_state_size": 16,
                "moe_shared_expert_intermediate_size": 64,
            },
            "OlmoHybridForCausalLM": {},
            "Qwen3NextForCausalLM": {"layer_types": ["linear_attention", "full_attention"]},
            "RecurrentGemmaForCausalLM": {"num_hidden_layers": 3},
            "RwkvForCausalLM": {},
            "Zamba2ForCausalLM": {
                "layers_block_type": ["mamba", "hybrid"],
                "n_mamba_heads": 8,
                "mamba_headdim": 32,
            },
            "xLSTMForCausalLM": {"num_heads": 4, "mode": "train", "v_head_dim": ...},
        },
    ),
    (
        "vision",
        images,
        VISION,
        {
            "BeitForImageClassification": {},
            "Data2VecVisionForImageClassification": {},
            "DeiTForImageClassification": {},
            "Dinov2ForImageClassification": {},
            "Dinov2WithRegistersForImageClassification": {},
            "HieraForImageClassification": {
                "image_size": [IMAGE, IMAGE],
                "patch_size": [7, 7],
                "embed_dim": 32,
                "depths": [1, 1],
                "num_heads": [1, 2],
                "num_query_pool": 1,
                "masked_unit_size": [4, 4],
            },
            "IJepaForImageClassification": {},
            "ViTForImageClassification": {},
            "ViTMSNForImageClassification": {},
        },
    ),
    (
        "vision",
        images,
        STAGES,
        {
            "BitForImageClassification": {"embedding_size": 32, "num_groups": 8},
            "ConvNextForImageClassification": {},
            "ConvNextV2ForImageClassification": {},
            "CvtForImageClassification": {
                "embed_dim": [16, 32, 64],
                "depth": [1, 2, 3],
                "depths": ...,
                "num_heads": [1, 2, 4],
            },
            "EfficientNetForImageClassification": {"width_coefficient": 0.25, "hidden_dim": 320},
            "FocalNetForImageClassification": {"embed_dim": 16, "patch_size": 4},
            "HGNetV2ForImageClassification": {
                "depths": ...,
                "hidden_sizes": [32, 48, 64, 96],
                "stem_channels": [3, 8, 16],
                "stage_in_channels": [16, 32, 48, 64],
                "stage_mid_channels": [8, 16, 16, 24],
                "stage_out_channels": [32, 48, 64, 96],
                "stage_num_blocks": [1, 1, 1, 1],
                "stage_numb_of_layers": [2, 2, 2, 2],
            },
            "LevitForImageClassification": {
                "hidden_sizes": [32, 48, 64],
                "num_attention_heads": [2, 3, 4],
                "depths": [1, 1, 1],
            },
            "MobileNetV1ForImageClassification": {"depth_multiplier": 0.25},
            "MobileNetV2ForImageClassification": {"depth_multiplier": 0.25},
            "MobileViTForImageClassification": {
                "hidden_sizes": [32, 48, 64],
                "neck_hidden_sizes": [8, 16, 16, 24, 32, 48, 64],
            },
            "MobileViTV2ForImageClassification": {"width_multiplier": 0.25},
            "PoolFormerForImageClassification": {},
            "PvtForImageClassification": {"num_attention_heads": [1, 1, 2, 4]},
            "PvtV2ForImageClassification": {"num_attention_heads": [1, 1, 2, 4]},
            "RegNetForImageClassification": {"embedding_size": 16, "groups_width": 8},
            "ResNetForImageClassification": {"embedding_size": 16},
            "SegformerForImageClassification": {},
            "SwiftFormerForImageClassification": {"embed_dims": [16, 32, 48, 64]},
        },
    ),
    (
        "vision",
        images,
        SWIN,
        {
            "DonutSwinForImageClassification": {},
            "SwinForImageClassification": {},
            "Swinv2ForImageClassification": {},
        },
    ),
    (
        "vision",
        masked_images,
        VISION,
        {
            "BeitForMaskedImageModeling": {"use_mask_token": True},
            "ViTForMaskedImageModeling": {"encoder_stride": 8},
            "ViTMAEForPreTraining": {
                "decoder_hidden_size": 64,
                "decoder_num_hidden_layers": 1,
                "decoder_num_attention_heads": 4,
                "decoder_intermediate_size": 128,
            },
        },
    ),
    (
        "vision, dense and detection",
        segments,
        STAGES,
        {
            "MobileViTForSemanticSegmentation": {
                "hidden_sizes": [32, 48, 64],
                "neck_hidden_sizes": [8, 16, 16, 24, 32, 48, 64],
                "aspp_out_channels": 32,
            },
            "SegformerForSemanticSegmentation": {"decoder_hidden_size": 64},
            "UperNetForSemanticSegmentation": {
                "backbone_config": {"model_type": "convnext"}
                | STAGES
                | {"out_features": STAGE_NAMES},
                "hidden_size": 64,
                "auxiliary_in_channels": 48,
                "auxiliary_channels": 32,
            },
        },
    ),
    (
        "vision, dense and detection",
        segments,
        VISION,
        {
            "DPTForSemanticSegmentation": DPT,
        },
    ),
    (
        "vision, dense and detection",
        depths,
        VISION,
        {
            "GLPNForDepthEstimation": STAGES | {"num_attention_heads": [1, 1, 2, 4]},
        },
    ),
    (
        "vision, dense and detection",
        boxes,
        VISION,
        {
            "ConditionalDetrForObjectDetection": DETR,
            "DabDetrForObjectDetection": DETR | {"hidden_size": 64},
            "DeformableDetrForObjectDetection": DETR,
            "DetrForObjectDetection": DETR,
            "TableTransformerForObjectDetection": DETR,
            "YolosForObjectDetection": {
                "image_size": [IMAGE, IMAGE],
                "num_detection_tokens": 10,
            },
        },
    ),
    (
        "vision, dense and detection",
        areas,
        VISION,
        {
            "Mask2FormerForUniversalSegmentation": {
                "backbone_config": {"model_type": "swin"} | SWIN4,
                "feature_size": 64,
                "mask_feature_size": 64,
                "hidden_dim": 64,
                "encoder_feedforward_dim": 64,
                "encoder_layers": 1,
                "decoder_layers": 2,
                "dim_feedforward": 64,
                "num_queries": 10,
                "train_num_points": 256,
            },
            "MaskFormerForInstanceSegmentation": {
                "backbone_config": {"model_type": "swin"} | SWIN4,
                "decoder_config": {"model_type": "detr"} | DETR,
                "fpn_feature_size": 64,
                "mask_feature_size": 64,
            },
        },
    ),
    (
        "vision, films",
        films,
        VISION | {"num_frames": 4},
        {
            "TimesformerForVideoClassification": {},
            "VideoMAEForVideoClassification": {},
            "VivitForVideoClassification": {"tubelet_size": [2, 8, 8]},
        },
    ),
    (
        "text and images",
        pairs,
        PAIR,
        {
            "AltCLIPModel": {"text_config": TEXT | {"project_dim": 128}},
            "BlipModel": {},
            "CLIPModel": {},
            "ChineseCLIPModel": {},
            "GroupViTModel": {
                "vision_config": VISION
                | {"depths": [1, 1], "num_group_tokens": [8, 0], "num_output_groups": [8, 4]},
                "projection_intermediate_dim": 64,
            },
            "SiglipModel": {},
        },
    ),
    (
        "text and images",
        words_and_image,
        PAIR,
        {
            "BlipForConditionalGeneration": {},
            "GitForCausalLM": TEXT | {"text_config": ...},
        },
    ),
    (
        "text and images",
        spoken,
        {
            "vision_config": SEEN | {"model_type": "clip_vision_model"},
            "text_config": LLAMA,
            "image_token_index": 3,
        },
        {
            "LlavaForConditionalGeneration": {},
            "PaliGemmaForConditionalGeneration": {
                "vision_config": SEEN | {"model_type": "siglip_vision_model"},
                "text_config": TEXT | {"model_type": "gemma"},
                "projection_dim": 128,
            },
            "VipLlavaForConditionalGeneration": {"vision_feature_layers": [-1, -2]},
        },
    ),
    (
        "text and images",
        tiles,
        {"text_config": LLAMA, "image_token_id": 3},
        {
            "Idefics3ForConditionalGeneration": {"vision_config": VISION, "scale_factor": 2},
            "SmolVLMForConditionalGeneration": {"vision_config": VISION, "scale_factor": 2},
        },
    ),
    (
        "text and images",
        grids,
        {"text_config": TEXT | MROPE, "vision_config": QWEN_VISION, "image_token_id": 3},
        {
            "Qwen2VLForConditionalGeneration": {},
            "Qwen2_5_VLForConditionalGeneration": {},
        },
    ),
    (
        "text and images",
        spoken,
        {"image_token_id": 3},
        {
            "InternVLForConditionalGeneration": {
                "vision_config": VISION | {"image_size": [IMAGE, IMAGE], "patch_size": [8, 8]},
                "text_config": TEXT | {"model_type": "qwen2"},
            },
            "Blip2ForConditionalGeneration": {
                "vision_config": VISION,
                "qformer_config": TEXT | {"encoder_hidden_size": 128},
                "text_config": TEXT | {"model_type": "opt", "word_embed_proj_dim": 128},
                "num_query_tokens": IMAGE_TOKENS,
                "image_token_index": 3,
            },
        },
    ),
    (
        "text and images",
        described_segments,
        {"text_config": TEXT, "vision_config": VISION | {"num_hidden_layers": 3}},
        {"CLIPSegForImageSegmentation": {"extract_layers": [0, 1, 2], "projection_dim": 64}},
    ),
    (
        "text and images",
        seen_regions,
        TEXT | {"visual_embedding_dim": 32, "visual_feat_dim": 32},
        {
            "LxmertModel": {"l_layers": 1, "x_layers": 1, "r_layers": 1},
            "VisualBertModel": {},
        },
    ),
    (
        "text and images",
        captions,
        {
            "encoder": VISION | {"model_type": "vit"},
            "decoder": DECODER,
            "decoder_start_token_id": 1,
            "pad_token_id": 0,
        },
        {"VisionEncoderDecoderModel": {}},
    ),
    (
        "text, encoder and decoder",
        translation,
        {"decoder_start_token_id": 1, "pad_token_id": 0},
        {
            "EncoderDecoderModel": {"encoder": TEXT | {"model_type": "bert"}, "decoder": DECODER},
            "T5GemmaForConditionalGeneration": {
                "encoder": TEXT,
                "decoder": TEXT | {"is_decoder": True},
                "vocab_size": VOCABULARY,
            },
        },
    ),
    (
        "text, encoder",
        letters,
        TEXT,
        {
            "PerceiverForMaskedLM": {
                "num_latents": 32,
                "d_latents": 64,
                "d_model": 64,
                "num_self_attends_per_block": 2,
                "num_self_attention_heads": 4,
                "num_cross_attention_heads": 4,
                "qk_channels": 64,
                "v_channels": 64,
                "max_position_embeddings": LENGTH,
            },
        },
    ),
    (
        "text and images",
        laid_out,
        TEXT,
        {
            "LayoutLMForTokenClassification": {"num_labels": VOCABULARY},
            "BrosForTokenClassification": {"num_labels": VOCABULARY},
        },
    ),
    (
        "text and images",
        laid_out_image,
        TEXT,
        {
            "LayoutLMv3ForTokenClassification": {
                "num_labels": VOCABULARY,
                "input_size": IMAGE,
                "patch_size": 8,
                "coordinate_size": 20,
                "shape_size": 24,
            },
        },
    ),
    (
        "time series and decisions",
        series,
        {"num_input_channels": 3, "context_length": 64, "prediction_length": 16},
        {
            "PatchTSMixerForPrediction": {"d_model": 32},
            "PatchTSTForPrediction": {
                "patch_length": 8,
                "patch_stride": 8,
                "d_model": 64,
                "ffn_dim": 128,
            },
        },
    ),
    (
        "time series and decisions",
        lagged_series,
        {
            "context_length": 32,
            "prediction_length": 16,
            "lags_sequence": [1, 2, 3],
            "num_time_features": 2,
        },
        {
            "AutoformerForPrediction": {},
            "InformerForPrediction": {},
            "TimeSeriesTransformerForPrediction": {},
        },
    ),
    (
        "time series and decisions",
        decisions,
        {"hidden_size": 64, "n_layer": 2, "n_head": 2},
        {"DecisionTransformerModel": {}},
    ),
    (
        "speech",
        spectrograms,
        TRANSLATION | {"max_source_positions": 32, "num_mel_bins": 32},
        {"WhisperForConditionalGeneration": {}},
    ),
    (
        "speech",
        frames,
        TRANSLATION | {"input_feat_per_channel": 32, "num_mel_bins": 32, "conv_channels": 64},
        {"Speech2TextForConditionalGeneration": {}},
    ),
    (
        "speech",
        audio_classes,
        SIZES | {"num_mel_bins": 32, "max_length": 64, "patch_size": 8},
        {"ASTForAudioClassification": {}},
    ),
    (
        "speech",
        speech_to_text,
        TEXT
        | {
            "encoder_num_hidden_layers": 2,
            "decoder_num_hidden_layers": 2,
            "encoder_num_attention_heads": 4,
            "decoder_num_attention_heads": 4,
        },
        {"MoonshineForConditionalGeneration": {}},
    ),
    (
        "speech",
        speech_to_text,
        TRANSLATION | SPEECH | {"vocab_size": VOCABULARY},
        {"SpeechT5ForSpeechToText": {}},
    ),
    (
        "speech",
        features,
        SPEECH | {"feature_projection_input_dim": 32},
        {
            "Wav2Vec2BertForCTC": {},
        },
    ),
    (
        "speech",
        waves,
        SPEECH,
        {
            "Data2VecAudioForCTC": {},
            "HubertForCTC": {},
            "SEWForCTC": {},
            "SEWDForCTC": {},
            "UniSpeechForCTC": {},
            "UniSpeechSatForCTC": {},
            "Wav2Vec2ConformerForCTC": {},
            "Wav2Vec2ForCTC": {},
            "WavLMForCTC": {},
        },
    ),
]


def program(name, family, inputs, config) -> Program:
    def make(place):
        kind = getattr(transformers, name)
        settings = kind.config_class(**config)
        _without_dropout(settings)
        batch = place(inputs(settings))
        return training(place, kind(settings), lambda model: _loss(model(**batch)))

    return Program(family, make)


def _loss(output):
    """The model's own, else something of its first result that has a gradient everywhere."""
    if getattr(output, "loss", None) is not None:
        return output.loss
    return output[0].square().mean()


def _without_dropout(config):
    """Nor other noise: the devices draw different numbers."""
    for name, value in vars(config).items():
        if isinstance(value, transformers.PreTrainedConfig):
            _without_dropout(value)
        elif "drop" in name or "jitter" in name:
            if isinstance(value, float):
                setattr(config, name, 0.0)
            elif isinstance(value, (list, tuple)):
                setattr(config, name, type(value)(0.0 for _ in value))


def _merged(sizes, needs):
    """An ellipsis takes a size away that the configuration refuses."""
    return {key: value for key, value in (sizes | needs).items() if value is not ...}


PROGRAMS = {
    name: program(name, family, inputs, _merged(sizes, needs))
    for family, inputs, sizes, models in TABLE
    for name, needs in models.items()
}
