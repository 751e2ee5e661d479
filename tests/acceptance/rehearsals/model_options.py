"""Options of the model that all jobs train; nothing but the standard library is imported here."""

import shlex

# Weights are made on the CPU and nothing is dropped: two devices draw other numbers.
MODEL = shlex.split(
    "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64"
    " --max-position-embeddings 64 --micro-batch-size 1 --global-batch-size 4"
    " --lr 1e-4 --min-lr 1e-5 --lr-decay-style constant --mock-data --tokenizer-type NullTokenizer"
    " --vocab-size 5000 --transformer-impl local --log-interval 1 --eval-iters 0"
    " --eval-interval 100 --no-gradient-accumulation-fusion --disable-bias-linear"
    " --use-mcore-models --attention-dropout 0 --hidden-dropout 0 --use-cpu-initialization"
    " --no-masked-softmax-fusion --ckpt-format torch"
)
