"""Image classifiers of timm, with random weights; as deep as they are, a batch of small images."""

import timm
import torch
import torch.nn.functional as F
from programs import Program, training

BATCH, CLASSES = 4, 5
# Batch norm of a few values makes much of the last digits: with greater steps two runs in f32 part.
RATE = 1e-5

# By the side of the images: what has no fixed size takes small ones.
TABLE = {
    64: """
        convnext_atto convnextv2_atto cspresnet50 darknet53 davit_tiny densenet121 dla34
        dpn48b edgenext_xx_small efficientnet_b0 ese_vovnet19b_dw fbnetc_100
        focalnet_tiny_srf gernet_s ghostnet_100 hardcorenas_a hgnet_tiny hrnet_w18_small
        inception_next_tiny lcnet_050 mambaout_femto mnasnet_100 mobilenetv2_100
        mobilenetv3_small_100 mobilenetv4_conv_small mobileone_s0 nf_resnet26 poolformer_s12
        regnetx_002 regnety_002 repghostnet_050 repvgg_a0 repvit_m0_9 res2net50_26w_4s
        resnest14d resnet18 resnet26 resnetv2_18 resnext26ts rexnet_100 selecsls42
        seresnext26d_32x4d skresnet18 starnet_s1 tinynet_e
    """,
    112: """
        cait_xxs24_224 convit_tiny deit3_small_patch16_224 deit_tiny_patch16_224
        eva02_tiny_patch14_224 gmlp_ti16_224 mixer_s32_224 pit_ti_224 resmlp_12_224
        swin_tiny_patch4_window7_224 tnt_s_legacy_patch16_224 visformer_tiny
        vit_tiny_patch16_224 xcit_nano_12_p16_224
    """,
}


def program(name, side) -> Program:
    def make(place):
        model = timm.create_model(name, num_classes=CLASSES, **_sizes(side))
        _without_dropout(model)
        images = place(torch.randn(BATCH, 3, side, side))
        classes = place(torch.randint(CLASSES, (BATCH,)))
        return training(place, model, lambda model: F.cross_entropy(model(images), classes), RATE)

    return Program("timm", make)


def _sizes(side) -> dict:
    """Of the image, for models that must know it."""
    return {"img_size": side} if side != 64 else {}


def _without_dropout(model):
    for module in model.modules():
        for name in ("p", "drop_prob", "drop_rate"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)


PROGRAMS = {
    f"timm.{name}": program(name, side) for side, names in TABLE.items() for name in names.split()
}
