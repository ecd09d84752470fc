; The native runtime that every artefact carries: a context table with a parallel-for over a pool of threads, and an
; allocator that keeps blocks warm. runtime_ir.py fills in what depends on the machine (the words that start with a
; dollar sign), explains the ABI, and names the exported functions.
;
; The pool runs one job at a time. Word `busy` says whether a caller owns it; a caller that finds it owned runs its
; loop by itself, which makes nested loops and several calling threads safe without a queue. A job is posted by adding
; one to the `ticket` of each worker that takes part. An idle worker watches its ticket for a bounded time and then
; sleeps on it (futex). Sleeper and waker follow Dekker's scheme: the one stores `sleeps` and then reads the word it
; waits for, the other stores that word and then reads `sleeps`, all sequentially consistent, so that one of them sees
; the other. Each worker counts `pending` down when it is done; the caller watches and then sleeps on that word alike.

; One worker: ticket, sleeps, pool, index, thread handle; a cache line of its own.
%worker = type { i32, i32, ptr, i64, i64, [32 x i8] }

%pool = type {
  i64, [56 x i8],                       ;  0 busy
  i32, i32, [56 x i8],                  ;  2 pending                   3 the caller sleeps on `pending`
  ptr, ptr, i64, i64, [32 x i8],        ;  5 body, 6 data              7 iterations per part, 8 parts with one more
  i64, i64, i64, i64, i64, i64, i64, [8 x i8], ; 10 threads, 11 workers started, 12 process id, 13 spins before sleep,
                                        ; 14 spins if every thread has a processor, 15 processors, 16 stop
  i64, i64, i64, [40 x i8],             ; 18 cache in use, 19 slot to evict next, 20 bytes in the cache
  [16 x ptr],                           ; 22 cached blocks
  [255 x %worker]                       ; 23
}

declare i64 @syscall(i64, ...)
declare i32 @getpid()
declare i32 @sched_yield()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @clock_gettime(i32, ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @madvise(ptr, i64, i32)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.ctpop.i64(i64)
$pause_declaration

; ---- waiting -------------------------------------------------------------------------------------------------------

; Tell the processor that this is a waiting loop.
define internal void @pause() alwaysinline nounwind {
  $pause
  ret void
}

; Sleep while the word holds the value (128 is FUTEX_WAIT for one process). Returns early at times; callers look again.
define internal void @futex_wait(ptr %word, i32 %value) nounwind {
  %ignored = call i64 (i64, ...) @syscall(i64 $futex, ptr %word, i32 128, i32 %value, ptr null)
  ret void
}

; Wake whoever sleeps on the word (129 is FUTEX_WAKE for one process).
define internal void @futex_wake(ptr %word) nounwind {
  %ignored = call i64 (i64, ...) @syscall(i64 $futex, ptr %word, i32 129, i32 1)
  ret void
}

; ---- workers -------------------------------------------------------------------------------------------------------

; Run part `part` of the posted job: the first `extra` parts have one iteration more than the others.
define internal void @run_part(ptr %pool, i64 %part) nounwind {
  %body.p = getelementptr %pool, ptr %pool, i64 0, i32 5
  %data.p = getelementptr %pool, ptr %pool, i64 0, i32 6
  %chunk.p = getelementptr %pool, ptr %pool, i64 0, i32 7
  %extra.p = getelementptr %pool, ptr %pool, i64 0, i32 8
  %body = load ptr, ptr %body.p
  %data = load ptr, ptr %data.p
  %chunk = load i64, ptr %chunk.p
  %extra = load i64, ptr %extra.p
  %before = mul i64 %part, %chunk
  %shift = call i64 @llvm.umin.i64(i64 %part, i64 %extra)
  %begin = add i64 %before, %shift
  %longer = icmp ult i64 %part, %extra
  %one = zext i1 %longer to i64
  %plain = add i64 %begin, %chunk
  %end = add i64 %plain, %one
  call void %body(ptr %data, i64 %begin, i64 %end)
  ret void
}

; What a worker thread does: wait for a ticket it has not seen, do its part, count down, again.
define internal ptr @worker(ptr %self) nounwind {
entry:
  %sleeps = getelementptr %worker, ptr %self, i64 0, i32 1
  %pool.p = getelementptr %worker, ptr %self, i64 0, i32 2
  %pool = load ptr, ptr %pool.p
  %index.p = getelementptr %worker, ptr %self, i64 0, i32 3
  %index = load i64, ptr %index.p
  %part = add i64 %index, 1
  %pending = getelementptr %pool, ptr %pool, i64 0, i32 2
  %caller.sleeps = getelementptr %pool, ptr %pool, i64 0, i32 3
  %spins.p = getelementptr %pool, ptr %pool, i64 0, i32 13
  %stop.p = getelementptr %pool, ptr %pool, i64 0, i32 16
  br label %idle

idle:
  %seen = phi i32 [ 0, %entry ], [ %ticket, %work ], [ %ticket, %last ], [ %ticket, %wake ]
  %spins = load atomic i64, ptr %spins.p monotonic, align 8
  br label %watch

watch:
  %left = phi i64 [ %spins, %idle ], [ %fewer, %again ], [ 0, %awake ]
  %ticket = load atomic i32, ptr %self acquire, align 4
  %posted = icmp ne i32 %ticket, %seen
  br i1 %posted, label %called, label %waiting

waiting:
  %tired = icmp eq i64 %left, 0
  br i1 %tired, label %sleep, label %again

again:
  call void @pause()
  %fewer = sub i64 %left, 1
  br label %watch

sleep:
  store atomic i32 1, ptr %sleeps seq_cst, align 4
  %latest = load atomic i32, ptr %self seq_cst, align 4
  %still = icmp eq i32 %latest, %seen
  br i1 %still, label %wait, label %awake

wait:
  call void @futex_wait(ptr %self, i32 %seen)
  br label %awake

awake:
  store atomic i32 0, ptr %sleeps release, align 4
  br label %watch

called:
  %stop = load atomic i64, ptr %stop.p acquire, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %end, label %work

work:
  call void @run_part(ptr %pool, i64 %part)
  %count = atomicrmw sub ptr %pending, i32 1 seq_cst
  %is.last = icmp eq i32 %count, 1
  br i1 %is.last, label %last, label %idle

last:
  %asleep = load atomic i32, ptr %caller.sleeps seq_cst, align 4
  %is.asleep = icmp ne i32 %asleep, 0
  br i1 %is.asleep, label %wake, label %idle

wake:
  call void @futex_wake(ptr %pending)
  br label %idle

end:
  ret ptr null
}

; Start threads until `want` workers exist; returns how many of the wanted there are, fewer if the system refuses.
define internal i64 @start_workers(ptr %pool, i64 %want) nounwind {
entry:
  %count.p = getelementptr %pool, ptr %pool, i64 0, i32 11
  %have = load i64, ptr %count.p
  br label %check

check:
  %count = phi i64 [ %have, %entry ], [ %more, %started ]
  %enough = icmp uge i64 %count, %want
  br i1 %enough, label %all, label %start

start:
  %self = getelementptr %pool, ptr %pool, i64 0, i32 23, i64 %count
  call void @llvm.memset.p0.i64(ptr %self, i8 0, i64 64, i1 false)
  %pool.p = getelementptr %worker, ptr %self, i64 0, i32 2
  store ptr %pool, ptr %pool.p
  %index.p = getelementptr %worker, ptr %self, i64 0, i32 3
  store i64 %count, ptr %index.p
  %thread.p = getelementptr %worker, ptr %self, i64 0, i32 4
  %status = call i32 @pthread_create(ptr %thread.p, ptr null, ptr @worker, ptr %self)
  %ok = icmp eq i32 %status, 0
  br i1 %ok, label %started, label %refused

started:
  %more = add i64 %count, 1
  store i64 %more, ptr %count.p
  br label %check

refused:
  ret i64 %count

all:
  ret i64 %want
}

; ---- parallel for --------------------------------------------------------------------------------------------------

; Try to become the pool's owner. In a child process after fork the workers and whatever was going on are gone: the
; first caller there puts the pool back into its first state (its cached blocks are given up, their list may have been
; caught in the middle of a change), while others run by themselves (process id -1).
define internal i1 @enter(ptr %pool) nounwind {
entry:
  %pid.p = getelementptr %pool, ptr %pool, i64 0, i32 12
  %me.32 = call i32 @getpid()
  %me = zext i32 %me.32 to i64
  %pid = load atomic i64, ptr %pid.p acquire, align 8
  %same = icmp eq i64 %pid, %me
  br i1 %same, label %try, label %forked

forked:
  %resetting = icmp eq i64 %pid, -1
  br i1 %resetting, label %no, label %claim

claim:
  %claimed = cmpxchg ptr %pid.p, i64 %pid, i64 -1 acq_rel monotonic
  %first = extractvalue { i64, i1 } %claimed, 1
  br i1 %first, label %reset, label %no

reset:
  %count.p = getelementptr %pool, ptr %pool, i64 0, i32 11
  store i64 0, ptr %count.p
  %pending = getelementptr %pool, ptr %pool, i64 0, i32 2
  store i64 0, ptr %pending
  %cache = getelementptr %pool, ptr %pool, i64 0, i32 18
  %blocks = getelementptr %pool, ptr %pool, i64 0, i32 22
  call void @llvm.memset.p0.i64(ptr %blocks, i8 0, i64 128, i1 false)
  call void @llvm.memset.p0.i64(ptr %cache, i8 0, i64 24, i1 false)
  store atomic i64 0, ptr %pool monotonic, align 8
  store atomic i64 %me, ptr %pid.p release, align 8
  br label %try

try:
  %taken = cmpxchg ptr %pool, i64 0, i64 1 acquire monotonic
  %mine = extractvalue { i64, i1 } %taken, 1
  ret i1 %mine

no:
  ret i1 false
}

; Hand parts 1, 2, ... to the workers.
define internal void @post(ptr %pool, i64 %parts, ptr %body, ptr %data, i64 %n) nounwind {
entry:
  %pending = getelementptr %pool, ptr %pool, i64 0, i32 2
  %body.p = getelementptr %pool, ptr %pool, i64 0, i32 5
  %data.p = getelementptr %pool, ptr %pool, i64 0, i32 6
  %chunk.p = getelementptr %pool, ptr %pool, i64 0, i32 7
  %extra.p = getelementptr %pool, ptr %pool, i64 0, i32 8
  store ptr %body, ptr %body.p
  store ptr %data, ptr %data.p
  %chunk = udiv i64 %n, %parts
  store i64 %chunk, ptr %chunk.p
  %extra = urem i64 %n, %parts
  store i64 %extra, ptr %extra.p
  %others = sub i64 %parts, 1
  %others.32 = trunc i64 %others to i32
  store atomic i32 %others.32, ptr %pending release, align 4
  br label %next

next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %called ]
  %self = getelementptr %pool, ptr %pool, i64 0, i32 23, i64 %k
  %ignored = atomicrmw add ptr %self, i32 1 seq_cst
  %sleeps = getelementptr %worker, ptr %self, i64 0, i32 1
  %asleep = load atomic i32, ptr %sleeps seq_cst, align 4
  %is.asleep = icmp ne i32 %asleep, 0
  br i1 %is.asleep, label %wake, label %called

wake:
  call void @futex_wake(ptr %self)
  br label %called

called:
  %k.next = add i64 %k, 1
  %more = icmp ult i64 %k.next, %others
  br i1 %more, label %next, label %end

end:
  ret void
}

; Wait until every worker has counted down.
define internal void @join(ptr %pool) nounwind {
entry:
  %pending = getelementptr %pool, ptr %pool, i64 0, i32 2
  %sleeps = getelementptr %pool, ptr %pool, i64 0, i32 3
  %spins.p = getelementptr %pool, ptr %pool, i64 0, i32 13
  %spins = load atomic i64, ptr %spins.p monotonic, align 8
  br label %watch

watch:
  %left = phi i64 [ %spins, %entry ], [ %fewer, %again ], [ 0, %awake ]
  %count = load atomic i32, ptr %pending acquire, align 4
  %done = icmp eq i32 %count, 0
  br i1 %done, label %end, label %waiting

waiting:
  %tired = icmp eq i64 %left, 0
  br i1 %tired, label %sleep, label %again

again:
  call void @pause()
  %fewer = sub i64 %left, 1
  br label %watch

sleep:
  store atomic i32 1, ptr %sleeps seq_cst, align 4
  %latest = load atomic i32, ptr %pending seq_cst, align 4
  %over = icmp eq i32 %latest, 0
  br i1 %over, label %awake, label %wait

wait:
  call void @futex_wait(ptr %pending, i32 %latest)
  br label %awake

awake:
  store atomic i32 0, ptr %sleeps release, align 4
  br label %watch

end:
  ret void
}

define internal void @parallel_for(ptr %context, ptr %body, ptr %data, i64 %n) nounwind {
entry:
  %empty = icmp slt i64 %n, 1
  br i1 %empty, label %end, label %some

some:
  %pool.p = getelementptr i64, ptr %context, i64 4
  %pool = load ptr, ptr %pool.p
  %threads.p = getelementptr %pool, ptr %pool, i64 0, i32 10
  %threads = load atomic i64, ptr %threads.p monotonic, align 8
  %wanted = call i64 @llvm.umin.i64(i64 %threads, i64 %n)
  %several = icmp ugt i64 %wanted, 1
  br i1 %several, label %ask, label %alone

ask:
  %mine = call i1 @enter(ptr %pool)
  br i1 %mine, label %owner, label %alone

owner:
  %want = sub i64 %wanted, 1
  %others = call i64 @start_workers(ptr %pool, i64 %want)
  %helped = icmp ne i64 %others, 0
  br i1 %helped, label %together, label %leave

together:
  %parts = add i64 %others, 1
  call void @post(ptr %pool, i64 %parts, ptr %body, ptr %data, i64 %n)
  call void @run_part(ptr %pool, i64 0)
  call void @join(ptr %pool)
  store atomic i64 0, ptr %pool release, align 8
  br label %end

leave:
  store atomic i64 0, ptr %pool release, align 8
  br label %alone

alone:
  call void %body(ptr %data, i64 0, i64 %n)
  br label %end

end:
  ret void
}

; ---- allocation ----------------------------------------------------------------------------------------------------

; A block is a 64-byte head, whose first word is the size of the whole, and the bytes handed out. Released blocks are
; kept in 16 slots. The cache is entered without waiting: whoever finds it in use goes to the system instead.
define internal ptr @allocate(ptr %context, i64 %bytes) nounwind {
entry:
  %pool.p = getelementptr i64, ptr %context, i64 4
  %pool = load ptr, ptr %pool.p
  %sane = icmp ult i64 %bytes, 70368744177664
  br i1 %sane, label %round, label %fail

round:
  %headed = add i64 %bytes, 64
  %large = icmp uge i64 %headed, 4096
  %huge = icmp uge i64 %headed, 4194304
  %mask.1 = select i1 %large, i64 4095, i64 63
  %mask = select i1 %huge, i64 2097151, i64 %mask.1
  %raised = add i64 %headed, %mask
  %clear = xor i64 %mask, -1
  %size = and i64 %raised, %clear
  %twice = mul i64 %size, 2
  %cache = getelementptr %pool, ptr %pool, i64 0, i32 18
  %used = atomicrmw xchg ptr %cache, i64 1 acquire
  %free = icmp eq i64 %used, 0
  br i1 %free, label %scan, label %fresh

; The smallest kept block that fits and is at most twice as large.
scan:
  %k = phi i64 [ 0, %round ], [ %k.next, %look ]
  %best = phi i64 [ -1, %round ], [ %best.next, %look ]
  %best.size = phi i64 [ %twice, %round ], [ %best.size.next, %look ]
  %slot = getelementptr %pool, ptr %pool, i64 0, i32 22, i64 %k
  %block.k = load ptr, ptr %slot
  %vacant = icmp eq ptr %block.k, null
  br i1 %vacant, label %look, label %fit

fit:
  %size.k = load i64, ptr %block.k
  br label %look

look:
  %have = phi i64 [ 0, %scan ], [ %size.k, %fit ]
  %fits = icmp uge i64 %have, %size
  %smaller = icmp ule i64 %have, %best.size
  %better = and i1 %fits, %smaller
  %best.next = select i1 %better, i64 %k, i64 %best
  %best.size.next = select i1 %better, i64 %have, i64 %best.size
  %k.next = add i64 %k, 1
  %more = icmp ult i64 %k.next, 16
  br i1 %more, label %scan, label %found

found:
  %any = icmp ne i64 %best.next, -1
  br i1 %any, label %take, label %none

take:
  %taken.p = getelementptr %pool, ptr %pool, i64 0, i32 22, i64 %best.next
  %taken = load ptr, ptr %taken.p
  store ptr null, ptr %taken.p
  %total.p = getelementptr %pool, ptr %pool, i64 0, i32 20
  %total = load i64, ptr %total.p
  %rest = sub i64 %total, %best.size.next
  store i64 %rest, ptr %total.p
  store atomic i64 0, ptr %cache release, align 8
  br label %give

none:
  store atomic i64 0, ptr %cache release, align 8
  br label %fresh

; Blocks of several megabytes are aligned for huge pages and ask for them (14 is MADV_HUGEPAGE); advice may be refused.
fresh:
  %alignment = select i1 %huge, i64 2097152, i64 64
  %block.new = call ptr @aligned_alloc(i64 %alignment, i64 %size)
  %failed = icmp eq ptr %block.new, null
  br i1 %failed, label %fail, label %made

made:
  store i64 %size, ptr %block.new
  br i1 %huge, label %advise, label %give

advise:
  %ignored = call i32 @madvise(ptr %block.new, i64 %size, i32 14)
  br label %give

give:
  %block = phi ptr [ %taken, %take ], [ %block.new, %made ], [ %block.new, %advise ]
  %result = getelementptr i8, ptr %block, i64 64
  ret ptr %result

fail:
  ret ptr null
}

define internal void @release(ptr %context, ptr %given) nounwind {
entry:
  %nothing = icmp eq ptr %given, null
  br i1 %nothing, label %end, label %some

some:
  %pool.p = getelementptr i64, ptr %context, i64 4
  %pool = load ptr, ptr %pool.p
  %block = getelementptr i8, ptr %given, i64 -64
  %size = load i64, ptr %block
  %cache = getelementptr %pool, ptr %pool, i64 0, i32 18
  %used = atomicrmw xchg ptr %cache, i64 1 acquire
  %free = icmp eq i64 %used, 0
  br i1 %free, label %room, label %discard

; At most a gigabyte is kept.
room:
  %total.p = getelementptr %pool, ptr %pool, i64 0, i32 20
  %total = load i64, ptr %total.p
  %sum = add i64 %total, %size
  %fits = icmp ule i64 %sum, 1073741824
  br i1 %fits, label %scan, label %leave

scan:
  %k = phi i64 [ 0, %room ], [ %k.next, %next ]
  %slot.k = getelementptr %pool, ptr %pool, i64 0, i32 22, i64 %k
  %kept = load ptr, ptr %slot.k
  %vacant = icmp eq ptr %kept, null
  br i1 %vacant, label %keep, label %next

next:
  %k.next = add i64 %k, 1
  %more = icmp ult i64 %k.next, 16
  br i1 %more, label %scan, label %evict

; All slots are taken: the next one in turn gives up its block.
evict:
  %turn.p = getelementptr %pool, ptr %pool, i64 0, i32 19
  %turn = load i64, ptr %turn.p
  %turn.next = add i64 %turn, 1
  store i64 %turn.next, ptr %turn.p
  %victim = and i64 %turn, 15
  %slot.v = getelementptr %pool, ptr %pool, i64 0, i32 22, i64 %victim
  %old = load ptr, ptr %slot.v
  %old.size = load i64, ptr %old
  %sum.v = sub i64 %sum, %old.size
  br label %keep

keep:
  %slot = phi ptr [ %slot.k, %scan ], [ %slot.v, %evict ]
  %dropped = phi ptr [ null, %scan ], [ %old, %evict ]
  %sum.new = phi i64 [ %sum, %scan ], [ %sum.v, %evict ]
  store ptr %block, ptr %slot
  store i64 %sum.new, ptr %total.p
  store atomic i64 0, ptr %cache release, align 8
  call void @free(ptr %dropped)
  ret void

leave:
  store atomic i64 0, ptr %cache release, align 8
  br label %discard

discard:
  call void @free(ptr %block)
  br label %end

end:
  ret void
}

; ---- the exported functions ----------------------------------------------------------------------------------------

; How many processors this process may use.
define internal i64 @processors() nounwind {
entry:
  %set = alloca [16 x i64], align 8
  call void @llvm.memset.p0.i64(ptr %set, i8 0, i64 128, i1 false)
  %status = call i32 @sched_getaffinity(i32 0, i64 128, ptr %set)
  br label %sum

sum:
  %k = phi i64 [ 0, %entry ], [ %k.next, %sum ]
  %total = phi i64 [ 0, %entry ], [ %total.next, %sum ]
  %word.p = getelementptr i64, ptr %set, i64 %k
  %word = load i64, ptr %word.p
  %bits = call i64 @llvm.ctpop.i64(i64 %word)
  %total.next = add i64 %total, %bits
  %k.next = add i64 %k, 1
  %more = icmp ult i64 %k.next, 16
  br i1 %more, label %sum, label %end

end:
  %result = call i64 @llvm.umax.i64(i64 %total.next, i64 1)
  ret i64 %result
}

; How many pauses take about 50 microseconds: the length of a pause differs tenfold between processors.
define internal i64 @spins() nounwind {
entry:
  %from = alloca [2 x i64], align 8
  %to = alloca [2 x i64], align 8
  %ignored.1 = call i32 @clock_gettime(i32 1, ptr %from)
  br label %loop

loop:
  %k = phi i64 [ 0, %entry ], [ %k.next, %loop ]
  call void @pause()
  %k.next = add i64 %k, 1
  %more = icmp ult i64 %k.next, 1000
  br i1 %more, label %loop, label %end

end:
  %ignored.2 = call i32 @clock_gettime(i32 1, ptr %to)
  %from.s = load i64, ptr %from
  %to.s = load i64, ptr %to
  %from.ns.p = getelementptr i64, ptr %from, i64 1
  %to.ns.p = getelementptr i64, ptr %to, i64 1
  %from.ns = load i64, ptr %from.ns.p
  %to.ns = load i64, ptr %to.ns.p
  %s = sub i64 %to.s, %from.s
  %s.ns = mul i64 %s, 1000000000
  %ns = sub i64 %to.ns, %from.ns
  %elapsed.raw = add i64 %ns, %s.ns
  %elapsed = call i64 @llvm.umax.i64(i64 %elapsed.raw, i64 1)
  %wished = udiv i64 50000000, %elapsed
  %low = call i64 @llvm.umax.i64(i64 %wished, i64 200)
  %result = call i64 @llvm.umin.i64(i64 %low, i64 50000)
  ret i64 %result
}

; Set how many threads run a loop, the caller included; fewer than one means one per processor. With more threads than
; processors nobody spins: it would keep a processor from a thread that has work.
define void @tw_context_set_threads(ptr %context, i64 %asked) nounwind {
  %pool.p = getelementptr i64, ptr %context, i64 4
  %pool = load ptr, ptr %pool.p
  %cpus.p = getelementptr %pool, ptr %pool, i64 0, i32 15
  %cpus = load i64, ptr %cpus.p
  %default = icmp slt i64 %asked, 1
  %chosen = select i1 %default, i64 %cpus, i64 %asked
  %threads = call i64 @llvm.umin.i64(i64 %chosen, i64 256)
  %threads.p = getelementptr %pool, ptr %pool, i64 0, i32 10
  store atomic i64 %threads, ptr %threads.p monotonic, align 8
  %crowded = icmp ugt i64 %threads, %cpus
  %base.p = getelementptr %pool, ptr %pool, i64 0, i32 14
  %base = load i64, ptr %base.p
  %spins = select i1 %crowded, i64 0, i64 %base
  %spins.p = getelementptr %pool, ptr %pool, i64 0, i32 13
  store atomic i64 %spins, ptr %spins.p monotonic, align 8
  ret void
}

define i64 @tw_context_threads(ptr %context) nounwind {
  %pool.p = getelementptr i64, ptr %context, i64 4
  %pool = load ptr, ptr %pool.p
  %threads.p = getelementptr %pool, ptr %pool, i64 0, i32 10
  %threads = load atomic i64, ptr %threads.p monotonic, align 8
  ret i64 %threads
}

; A new context with its pool, or null if there is no memory. Threads are started by the first loop that needs them.
define ptr @tw_context_create(i64 %threads) nounwind {
entry:
  %size.p = getelementptr %pool, ptr null, i64 1
  %size = ptrtoint ptr %size.p to i64
  %pool = call ptr @aligned_alloc(i64 64, i64 %size)
  %context = call ptr @aligned_alloc(i64 64, i64 64)
  %no.pool = icmp eq ptr %pool, null
  %no.context = icmp eq ptr %context, null
  %failed = or i1 %no.pool, %no.context
  br i1 %failed, label %fail, label %fill

fail:
  call void @free(ptr %pool)
  call void @free(ptr %context)
  ret ptr null

fill:
  call void @llvm.memset.p0.i64(ptr %pool, i8 0, i64 %size, i1 false)
  %pid.p = getelementptr %pool, ptr %pool, i64 0, i32 12
  %pid.32 = call i32 @getpid()
  %pid = zext i32 %pid.32 to i64
  store i64 %pid, ptr %pid.p
  %base.p = getelementptr %pool, ptr %pool, i64 0, i32 14
  %base = call i64 @spins()
  store i64 %base, ptr %base.p
  %cpus.p = getelementptr %pool, ptr %pool, i64 0, i32 15
  %cpus = call i64 @processors()
  store i64 %cpus, ptr %cpus.p
  store i64 1, ptr %context
  %parallel_for.p = getelementptr i64, ptr %context, i64 1
  store ptr @parallel_for, ptr %parallel_for.p
  %allocate.p = getelementptr i64, ptr %context, i64 2
  store ptr @allocate, ptr %allocate.p
  %release.p = getelementptr i64, ptr %context, i64 3
  store ptr @release, ptr %release.p
  %pool.p = getelementptr i64, ptr %context, i64 4
  store ptr %pool, ptr %pool.p
  call void @tw_context_set_threads(ptr %context, i64 %threads)
  ret ptr %context
}

; End the workers and free everything. No loop may be running or begin. In a forked child there are no workers to end.
define void @tw_context_destroy(ptr %context) nounwind {
entry:
  %pool.p = getelementptr i64, ptr %context, i64 4
  %pool = load ptr, ptr %pool.p
  %pid.p = getelementptr %pool, ptr %pool, i64 0, i32 12
  %pid = load atomic i64, ptr %pid.p acquire, align 8
  %me.32 = call i32 @getpid()
  %me = zext i32 %me.32 to i64
  %same = icmp eq i64 %pid, %me
  br i1 %same, label %own, label %drop

own:
  %mine = call i1 @enter(ptr %pool)
  br i1 %mine, label %stop, label %wait

wait:
  %ignored.1 = call i32 @sched_yield()
  br label %own

stop:
  %stop.p = getelementptr %pool, ptr %pool, i64 0, i32 16
  store atomic i64 1, ptr %stop.p release, align 8
  %count.p = getelementptr %pool, ptr %pool, i64 0, i32 11
  %count = load i64, ptr %count.p
  br label %check

check:
  %k = phi i64 [ 0, %stop ], [ %k.next, %end_one ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %end_one, label %blocks

end_one:
  %self = getelementptr %pool, ptr %pool, i64 0, i32 23, i64 %k
  %ignored.2 = atomicrmw add ptr %self, i32 1 seq_cst
  call void @futex_wake(ptr %self)
  %thread.p = getelementptr %worker, ptr %self, i64 0, i32 4
  %thread = load i64, ptr %thread.p
  %ignored.3 = call i32 @pthread_join(i64 %thread, ptr null)
  %k.next = add i64 %k, 1
  br label %check

blocks:
  %b = phi i64 [ 0, %check ], [ %b.next, %blocks ]
  %slot = getelementptr %pool, ptr %pool, i64 0, i32 22, i64 %b
  %block = load ptr, ptr %slot
  call void @free(ptr %block)
  %b.next = add i64 %b, 1
  %left = icmp ult i64 %b.next, 16
  br i1 %left, label %blocks, label %drop

drop:
  call void @free(ptr %pool)
  call void @free(ptr %context)
  ret void
}
