"""Programs in the spirit of pytorch/examples, on made data, and a small GPT on Python's sources."""

import math
import sysconfig
from pathlib import Path

import torch
import torch.nn.functional as F
from programs import Program, training
from torch import nn
from torch.distributions import Categorical

PROGRAMS = {}


def example(name):
    """Puts `make(place)` into the table."""

    def put(make):
        PROGRAMS[name] = Program("examples", make)
        return make

    return put


def classes(count, *shape):
    return torch.randint(count, shape)


@example("regression")
def regression(place):
    """A polynomial of degree four by least squares."""
    x = torch.randn(32, 1)
    powers = torch.cat([x**i for i in range(1, 5)], 1)
    powers, target = place(powers), place(powers @ torch.randn(4, 1) + 0.5)
    return training(place, nn.Linear(4, 1), lambda model: F.smooth_l1_loss(model(powers), target))


@example("mnist")
def mnist(place):
    images, digits = place(torch.randn(32, 1, 28, 28)), place(classes(10, 32))
    model = nn.Sequential(
        *(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10), nn.LogSoftmax(1)),
    )
    return training(place, model, lambda model: F.nll_loss(model(images), digits))


class RowReader(nn.Module):
    """mnist_rnn: the rows of an image one after another."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(28, 64, batch_first=True)
        self.norm = nn.BatchNorm1d(64)
        self.head = nn.Linear(64, 10)

    def forward(self, images):
        return self.head(self.norm(self.rnn(images)[0][:, -1]))


@example("mnist_rnn")
def mnist_rnn(place):
    images, digits = place(torch.randn(32, 28, 28)), place(classes(10, 32))
    return training(place, RowReader(), lambda model: F.cross_entropy(model(images), digits))


@example("mnist_forward_forward")
def mnist_forward_forward(place):
    """Every layer learns to tell right from wrong labels, by an optimizer and a loss of its own."""
    good, bad = place(torch.randn(32, 784)), place(torch.randn(32, 784))
    layers = [place(nn.Linear(784, 128)), place(nn.Linear(128, 128))]
    optimizers = [torch.optim.AdamW(layer.parameters(), 1e-3, fused=True) for layer in layers]

    def step():
        x, y = good, bad
        for layer, optimizer in zip(layers, optimizers, strict=True):
            x, y = (F.relu(layer(v / (v.norm(2, 1, keepdim=True) + 1e-4))) for v in (x, y))
            goodness = torch.cat((2.0 - x.pow(2).mean(1), y.pow(2).mean(1) - 2.0))
            loss = F.softplus(goodness).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            x, y = x.detach(), y.detach()
        return loss.detach()

    return step


class Recurrent(nn.Module):
    """word_language_model, with any of PyTorch's recurrent layers."""

    def __init__(self, kind, words=200, width=64):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        options = {} if kind in ("LSTM", "GRU") else {"nonlinearity": kind.split("_")[1].lower()}
        self.rnn = getattr(nn, kind.split("_")[0])(width, width, 2, **options)
        self.decoder = nn.Linear(width, words)
        self.decoder.weight = self.embedding.weight

    def forward(self, tokens, hidden):
        output, hidden = self.rnn(self.embedding(tokens), hidden)
        return self.decoder(output), hidden


def word_language_model(kind):
    @example(f"word_language_model.{kind}")
    def make(place):
        """The hidden state of a step is where the next one starts."""
        tokens = place(classes(200, 36, 8))
        model = place(Recurrent(kind))
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
        state = place(torch.zeros(2, 8, 64))
        hidden = (state, state) if kind == "LSTM" else state

        def step():
            nonlocal hidden
            output, hidden = model(tokens[:-1], hidden)
            hidden = tuple(h.detach() for h in hidden) if kind == "LSTM" else hidden.detach()
            loss = F.cross_entropy(output.flatten(0, 1), tokens[1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            optimizer.step()
            return loss.detach()

        return step


for kind in ("RNN_TANH", "RNN_RELU", "LSTM", "GRU"):
    word_language_model(kind)


class Positions(nn.Module):
    """Adds sines, as buffers."""

    def __init__(self, width, length=100):
        super().__init__()
        angles = torch.arange(length)[:, None] * torch.exp(
            torch.arange(0, width, 2) * (-math.log(10000.0) / width)
        )
        self.register_buffer("table", torch.stack((angles.sin(), angles.cos()), 2).flatten(1))

    def forward(self, x):
        return x + self.table[: x.size(1)]


class Encoder(nn.Module):
    """word_language_model's Transformer."""

    def __init__(self, words=200, width=64):
        super().__init__()
        self.embedding = nn.Sequential(nn.Embedding(words, width), Positions(width))
        layer = nn.TransformerEncoderLayer(width, 4, 128, 0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.decoder = nn.Linear(width, words)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(1), tokens.device)
        x = self.embedding(tokens)
        return self.decoder(self.encoder(x, mask.to(x.dtype), is_causal=True))


@example("word_language_model.Transformer")
def transformer(place):
    tokens = place(classes(200, 8, 36))

    def loss(model):
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    return training(place, Encoder(), loss)


class Translator(nn.Module):
    """language_translation: nn.Transformer as it comes, with all its masks."""

    def __init__(self, words=100, width=64):
        super().__init__()
        self.source = nn.Sequential(nn.Embedding(words, width), Positions(width))
        self.target = nn.Sequential(nn.Embedding(words, width), Positions(width))
        self.transformer = nn.Transformer(width, 4, 2, 2, 128, 0.0, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, source, target):
        causal = nn.Transformer.generate_square_subsequent_mask(target.size(1), target.device) < 0
        padding = source == 0
        output = self.transformer(
            *(self.source(source), self.target(target)),
            tgt_mask=causal,
            src_key_padding_mask=padding,
            tgt_key_padding_mask=target == 0,
            memory_key_padding_mask=padding,
        )
        return self.head(output)


@example("language_translation")
def language_translation(place):
    source, target = classes(100, 8, 20).clamp(min=1), classes(100, 8, 24).clamp(min=1)
    source[::2, 15:] = 0
    target[::2, 18:] = 0
    source, target = place(source), place(target)

    def loss(model):
        logits = model(source, target[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=0)

    return training(place, Translator(), loss)


class Autoencoder(nn.Module):
    """vae; the noise is data, since the devices draw different numbers."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(784, 400), nn.ReLU(), nn.Linear(400, 40))
        self.decoder = nn.Sequential(
            nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 784), nn.Sigmoid()
        )

    def forward(self, x, noise):
        mean, log_variance = self.encoder(x).chunk(2, 1)
        image = self.decoder(mean + noise * torch.exp(0.5 * log_variance))
        divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
        return F.binary_cross_entropy(image, x, reduction="sum") + divergence


@example("vae")
def vae(place):
    images, noise = place(torch.rand(32, 784)), place(torch.randn(32, 20))
    return training(place, Autoencoder(), lambda model: model(images, noise))


class Siamese(nn.Module):
    """siamese_network: are two images of one class?"""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(1, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU()),
            *(nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
            nn.Flatten(),
        )
        self.head = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid())

    def forward(self, one, other):
        return self.head(torch.cat((self.body(one), self.body(other)), 1)).squeeze()


@example("siamese_network")
def siamese_network(place):
    one, other = place(torch.randn(16, 1, 28, 28)), place(torch.randn(16, 1, 28, 28))
    same = place(classes(2, 16).float())
    return training(place, Siamese(), lambda m: F.binary_cross_entropy(m(one, other), same))


@example("dcgan")
def dcgan(place):
    """Two models that play against each other."""
    real, noise = place(torch.randn(8, 3, 32, 32)), place(torch.randn(8, 32, 1, 1))
    generator = place(
        nn.Sequential(
            *(nn.ConvTranspose2d(32, 64, 4, bias=False), nn.BatchNorm2d(64), nn.ReLU(True)),
            *(nn.ConvTranspose2d(64, 32, 4, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(True)),
            *(nn.ConvTranspose2d(32, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(True)),
            *(nn.ConvTranspose2d(16, 3, 4, 2, 1, bias=False), nn.Tanh()),
        )
    )
    critic = place(
        nn.Sequential(
            *(nn.Conv2d(3, 16, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True)),
            *(nn.Conv2d(16, 32, 4, 2, 1, bias=False), nn.BatchNorm2d(32), nn.LeakyReLU(0.2, True)),
            *(nn.Conv2d(32, 1, 8, bias=False), nn.Sigmoid(), nn.Flatten(0)),
        )
    )
    optimizers = [
        torch.optim.AdamW(model.parameters(), 2e-4, betas=(0.5, 0.999), fused=True)
        for model in (critic, generator)
    ]

    def step():
        fake = generator(noise)
        critic.zero_grad()
        ones, zeros = torch.ones_like(real[:, 0, 0, 0]), torch.zeros_like(real[:, 0, 0, 0])
        loss = F.binary_cross_entropy(critic(real), ones)
        loss.backward()
        false = F.binary_cross_entropy(critic(fake.detach()), zeros)
        false.backward()
        optimizers[0].step()
        generator.zero_grad()
        fooled = F.binary_cross_entropy(critic(fake), ones)
        fooled.backward()
        optimizers[1].step()
        return (loss + false + fooled).detach()

    return step


@example("super_resolution")
def super_resolution(place):
    small, large = place(torch.rand(4, 1, 32, 32)), place(torch.rand(4, 1, 96, 96))
    model = nn.Sequential(
        *(nn.Conv2d(1, 64, 5, 1, 2), nn.ReLU(), nn.Conv2d(64, 32, 3, 1, 1), nn.ReLU()),
        *(nn.Conv2d(32, 9, 3, 1, 1), nn.PixelShuffle(3)),
    )
    return training(place, model, lambda model: F.mse_loss(model(small), large))


class Wave(nn.Module):
    """time_sequence_prediction: two LSTM cells, a step at a time."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LSTMCell(1, 51), nn.LSTMCell(51, 51)
        self.head = nn.Linear(51, 1)

    def forward(self, x):
        a = b = None
        outputs = []
        for value in x.split(1, 1):
            a = self.first(value, a)
            b = self.second(a[0], b)
            outputs.append(self.head(b[0]))
        return torch.cat(outputs, 1)


@example("time_sequence_prediction")
def time_sequence_prediction(place):
    wave = torch.sin(torch.arange(41) / 5.0 + torch.randint(-20, 20, (16, 1)))
    x, y = place(wave[:, :-1]), place(wave[:, 1:])
    return training(place, Wave(), lambda model: F.mse_loss(model(x), y))


class Cart:
    """A pole on a cart, in Python: what gym's CartPole does."""

    def __init__(self):
        self.state = [0.01, 0.0, 0.02, 0.0]

    def push(self, right):
        x, speed, angle, turn = self.state
        force = 10.0 if right else -10.0
        part = (force + 0.05 * turn**2 * math.sin(angle)) / 1.1
        spin = (9.8 * math.sin(angle) - math.cos(angle) * part) / (
            0.5 * (4 / 3 - 0.1 * math.cos(angle) ** 2 / 1.1)
        )
        push = part - 0.05 * spin * math.cos(angle) / 1.1
        self.state = [x + 0.02 * speed, speed + 0.02 * push, angle + 0.02 * turn]
        self.state.append(turn + 0.02 * spin)
        return self.state


def reinforcement(name, critic):
    @example(name)
    def make(place):
        """Actions are sampled on the host, from the probabilities that it reads."""
        body = place(nn.Sequential(nn.Linear(4, 128), nn.ReLU()))
        actor, value = place(nn.Linear(128, 2)), place(nn.Linear(128, 1))
        parameters = [*body.parameters(), *actor.parameters(), *value.parameters()]
        optimizer = torch.optim.AdamW(parameters, 1e-2, fused=True)
        random = torch.Generator().manual_seed(1)

        def step():
            cart, logs, values = Cart(), [], []
            for _ in range(10):
                hidden = body(place(torch.tensor([cart.state])))
                chances = F.softmax(actor(hidden), 1)
                action = torch.multinomial(chances.detach().cpu().float(), 1, generator=random)
                logs.append(Categorical(chances).log_prob(place(action[0])))
                values.append(value(hidden)[0])
                cart.push(action.item() == 1)
            returns = place(torch.tensor([sum(0.99**k for k in range(10 - i)) for i in range(10)]))
            returns = (returns - returns.mean()) / (returns.std() + 1e-8)
            logs, values = torch.cat(logs), torch.cat(values)
            if critic:
                loss = (-logs * (returns - values.detach())).sum()
                loss = loss + F.smooth_l1_loss(values, returns, reduction="sum")
            else:
                loss = (-logs * returns).sum() + 0 * values.sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step


reinforcement("reinforce", critic=False)
reinforcement("actor_critic", critic=True)


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(
            *painted(channels, channels, 3, 1), *painted(channels, channels, 3, 1)[:3]
        )

    def forward(self, x):
        return x + self.body(x)


def painted(channels, results, size, stride):
    return (
        *(nn.ReflectionPad2d(size // 2), nn.Conv2d(channels, results, size, stride)),
        *(nn.InstanceNorm2d(results, affine=True), nn.ReLU()),
    )


@example("fast_neural_style")
def fast_neural_style(place):
    """The transformer net; for a loss, content and Gram matrices of its own first layers."""
    photo, style = place(torch.rand(2, 3, 48, 48)), place(torch.rand(2, 16, 16))
    model = nn.Sequential(
        *(*painted(3, 16, 9, 1), *painted(16, 32, 3, 2), Residual(32), Residual(32)),
        *(nn.Upsample(scale_factor=2, mode="nearest"), *painted(32, 16, 3, 1)),
        *(nn.ReflectionPad2d(4), nn.Conv2d(16, 3, 9)),
    )

    def loss(model):
        image = model(photo)
        features = model[:4](image).flatten(2)
        gram = features @ features.mT / features[0].numel()
        return F.mse_loss(image, photo) + F.mse_loss(gram, style)

    return training(place, model, loss)


def graph(place, nodes=64):
    """Features, a normalized adjacency matrix and classes of nodes."""
    links = torch.rand(nodes, nodes) < 0.1
    links = (links | links.T | torch.eye(nodes, dtype=torch.bool)).float()
    scale = links.sum(1).rsqrt()
    adjacency = scale[:, None] * links * scale
    return place(torch.randn(nodes, 32)), place(adjacency), place(classes(7, nodes))


class GraphConvolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(32, 16, bias=False), nn.Linear(16, 7, bias=False)

    def forward(self, x, adjacency):
        x = F.relu(adjacency @ self.first(x))
        return F.log_softmax(adjacency @ self.second(x), 1)


@example("gcn")
def gcn(place):
    x, adjacency, labels = graph(place)
    return training(
        place, GraphConvolution(), lambda model: F.nll_loss(model(x, adjacency), labels)
    )


class GraphAttention(nn.Module):
    """Heads of gat, over all pairs of nodes with a mask."""

    def __init__(self, width=32, result=8, heads=4):
        super().__init__()
        self.heads, self.result = heads, result
        self.project = nn.Linear(width, heads * result, bias=False)
        self.left = nn.Parameter(torch.randn(heads, result) * 0.1)
        self.right = nn.Parameter(torch.randn(heads, result) * 0.1)
        self.head = nn.Linear(heads * result, 7)

    def forward(self, x, adjacency):
        x = self.project(x).view(-1, self.heads, self.result)
        scores = (x * self.left).sum(2)[:, None] + (x * self.right).sum(2)[None]
        scores = F.leaky_relu(scores, 0.2).masked_fill(adjacency[:, :, None] == 0, -9e15)
        x = torch.einsum("ijh,jhf->ihf", scores.softmax(1), x)
        return F.log_softmax(self.head(F.elu(x.flatten(1))), 1)


@example("gat")
def gat(place):
    x, adjacency, labels = graph(place)
    return training(place, GraphAttention(), lambda model: F.nll_loss(model(x, adjacency), labels))


class VisionTransformer(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.first = nn.Parameter(torch.randn(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, 65, width))
        layer = nn.TransformerEncoderLayer(width, 4, 128, 0.0, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, 10)

    def forward(self, images):
        x = self.patches(images).flatten(2).mT
        x = torch.cat((self.first.expand(len(x), -1, -1), x), 1) + self.positions
        return self.head(self.encoder(x)[:, 0])


@example("vision_transformer")
def vision_transformer(place):
    images, labels = place(torch.randn(8, 3, 32, 32)), place(classes(10, 8))
    model = VisionTransformer()
    return training(place, model, lambda model: F.cross_entropy(model(images), labels))


class Inference(nn.Module):
    """snli: two sentences of different lengths through a bidirectional LSTM."""

    def __init__(self, words=300, width=50):
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        self.encoder = nn.LSTM(width, 64, bidirectional=True, batch_first=True)
        self.head = nn.Sequential(nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 3))

    def encode(self, sentence, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(sentence), lengths, batch_first=True, enforce_sorted=False
        )
        return self.encoder(packed)[1][0].transpose(0, 1).flatten(1)

    def forward(self, premise, hypothesis, lengths):
        a, b = self.encode(premise, lengths), self.encode(hypothesis, lengths)
        return self.head(torch.cat((a, b, a - b, a * b), 1))


@example("snli")
def snli(place):
    premise, hypothesis = place(classes(300, 16, 20)), place(classes(300, 16, 20))
    lengths, labels = torch.randint(5, 21, (16,)), place(classes(3, 16))
    return training(
        place, Inference(), lambda m: F.cross_entropy(m(premise, hypothesis, lengths), labels)
    )


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        q, k, v = (
            part.unflatten(2, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(self.norms[0](x)).chunk(3, 2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class GPT(nn.Module):
    def __init__(self, characters=256, width=128, length=128):
        super().__init__()
        self.tokens = nn.Embedding(characters, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, 4) for _ in range(4)), nn.LayerNorm(width))
        self.head = nn.Linear(width, characters, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, tokens):
        positions = torch.arange(tokens.size(1), device=tokens.device)
        return self.head(self.blocks(self.tokens(tokens) + self.positions(positions)))


@example("nanoGPT")
def nano_gpt(place):
    """Another batch of the standard library's own sources at every step, and a rate that falls."""
    folder = Path(sysconfig.get_path("stdlib"))
    sources = b"".join(path.read_bytes() for path in sorted(folder.glob("a*.py")))
    data = torch.tensor(list(sources), dtype=torch.long)
    model = place(GPT())
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, betas=(0.9, 0.95), fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
    random = torch.Generator().manual_seed(1)

    def step():
        starts = torch.randint(len(data) - 129, (8,), generator=random)
        batch = place(torch.stack([data[start : start + 129] for start in starts]))
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        return loss.detach()

    return step
