"""What users write by mistake: a type checker must find each line marked `# wrong`, and no other."""

import numpy as np

import fireiron
from fireiron import FR, RF, SH, A, B, Block, Matrix, Move, Thread, Warp, gemm, ldmatrix, matmul, relu, tma
from fireiron.schedules import hopper, simt
from fireiron.schedules.rows import softmax

spec = matmul(512, 512, 256, "f16", layout="TN")
tiled = spec.tile(128, 128).to(Block)
chunk = tiled.epilog(relu, memory=FR).split(32).pipeline(3)

spec.tiles(128, 128)  # wrong: no such link
spec.tile(128, 128).too(Block)  # wrong: no such refinement
tiled.pipeline(3)  # wrong: pipeline refines a split
chunk.to(Block)  # wrong: to refines a tile
chunk.load(A, SH).pipeline(2)  # wrong: a load has no stages
chunk.load(A, SH).swizle(3)  # wrong: misspelt
spec.tile("128", 128)  # wrong: a text
tiled.split(8.5)  # wrong: half a chunk
chunk.load(SH, A)  # wrong: arguments exchanged
matmul(512, 512)  # wrong: no K
fireiron.matmull(512, 512, 256)  # wrong: no such function
Move(Matrix(64, 32), Matrix(64, 32)).epilog(relu)  # wrong: Moves have no epilog
hopper.gem(spec)  # wrong: no such preset
simt.sgemm(spec).simulate().output  # wrong: it is called out
gemm(np.ones((4, 4)), np.ones((4, 4)), layouts="TN", epilog=3)  # wrong: no function

fine = (
    chunk.load(A, SH)
    .load(B, SH)
    .tile(64, 64)
    .to(Warp)
    .split(16)
    .unroll()
    .load(A, FR, ldmatrix())
    .load(B, FR, ldmatrix())
    .tile(16, 8)
    .unroll()
    .done()
)
source: str = fine.cuda("sm_90")
result = fine.simulate().out
simt.sgemm(matmul(64, 64, 32)).tree()
fireiron.softmax, fireiron.program, fireiron.best, fireiron.max
Move(Matrix(64, 32), Matrix(64, 32)).load("src", RF).tile(4, 4).to(Thread)
tma(span=128)
fine.tile(8, 8)  # wrong: no link follows done
Move(Matrix(64, 32), Matrix(64, 32)).split(8)  # wrong: Moves have no dim to split
softmax(Matrix(64, 64)).prolog("x", relu)  # wrong: programs have no prolog
softmax(Matrix(64, 64)).tile(m=8).to(Block).persistent().pipeline(2).split(n=32).online()
chunk.online()  # wrong: online refines a split of a program
chunk.load(A, SH).own(Thread)  # wrong: Moves have own
