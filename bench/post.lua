-- What wrk posts: each thread notifications of its own, made before the load begins.
--
-- Arguments: a file of the requests of each kind, with blanks, and a NUL behind each; a
-- file of lines of one length, each a dispatch's number and the digit of a kind; the
-- number of subscribers; what is added to every number; the second that all tell of;
-- the line to begin with; how many threads there are; how many requests each makes
-- ahead; and how many all post a second at the most, 0 for as many as can be. What goes
-- beyond those made ahead is made when it is needed.

local threads = {}

function setup(thread)
   thread:set("index", #threads)
   threads[#threads + 1] = thread
end

local LINE = 11 -- nine digits, a kind, a line feed
local forms, lines, ahead = {}, nil, {}
local people, base, second, first, step
local posted = 0

local function read(name)
   local file = assert(io.open(name, "rb"))
   local text = file:read("*a")
   file:close()
   return text
end

local function make(place)
   local serial = place * step + index
   local at = (first + serial) * LINE % #lines
   local number = tonumber(lines:sub(at + 1, at + 9))
   local blanks = {
      R = string.format("%d", base + number % people),
      M = string.format("%d", base + number),
      S = second,
      T = string.format("%06d", serial % 1000000),
   }
   return (forms[tonumber(lines:sub(at + 10, at + 10))]:gsub("<(%u)>", blanks))
end

local ffi = require("ffi")
ffi.cdef("typedef struct { long s, n; } moment; int clock_gettime(int, moment *);")

-- Post every so many milliseconds. wrk calls `delay`, where there is one, before each request
-- and waits as many whole milliseconds; the times to post at are fixed, so that none adds up.
function pace(every)
   local moment, due = ffi.new("moment"), nil
   function delay()
      ffi.C.clock_gettime(1, moment) -- the monotonic one
      local now = tonumber(moment.s) * 1e3 + tonumber(moment.n) / 1e6
      due = (due or now) + every
      return math.max(0, due - now)
   end
end

function init(args)
   for form in read(args[1]):gmatch("(%Z+)%z") do forms[#forms + 1] = form end
   lines = read(args[2])
   people, base, second = tonumber(args[3]), tonumber(args[4]), args[5]
   first, step = tonumber(args[6]), tonumber(args[7])
   for place = 0, tonumber(args[8]) - 1 do ahead[place] = make(place) end
   if tonumber(args[9]) > 0 then pace(1000 * step / tonumber(args[9])) end
   prepared = os.clock()
end

function request()
   local made = ahead[posted] or make(posted)
   posted = posted + 1
   return made
end

function done(summary, latency)
   local errors, prepared = summary.errors, threads[#threads]:get("prepared")
   io.write(string.format(
      '\n{"answered": %d, "seconds": %.6f, "cores": %.6f, "p50": %.3f, "p99": %.3f, "errors": %d}\n',
      summary.requests, summary.duration / 1e6, os.clock() - prepared,
      latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
      errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
