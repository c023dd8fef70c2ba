-- The script for wrk: posts notifications, which each thread builds before the load begins.
--
-- Arguments: a file with a request of each type, with placeholders and followed by NUL; a file
-- with lines of equal length, each with a dispatch's number and the digit of a type; the number of
-- subscribers; the number added to that of every row; the second of all events; the line to begin
-- with; the number of threads; the number of requests that each thread builds in advance; the pause
-- of a connection before each request, in milliseconds.

local threads = {}

function setup(thread)
   thread:set("index", #threads)
   threads[#threads + 1] = thread
end

local LINE = 11 -- nine digits, a type, a line feed
local templates, lines, prepared = {}, nil, {}
local subscribers, base, second, first, step
local posted = 0

local function read(name)
   local file = assert(io.open(name, "rb"))
   local text = file:read("*a")
   file:close()
   return text
end

local function build(place)
   local serial = place * step + index
   local at = (first + serial) * LINE % #lines
   local number = tonumber(lines:sub(at + 1, at + 9))
   local values = {
      R = string.format("%d", base + number % subscribers),
      M = string.format("%d", base + number),
      S = second,
      T = string.format("%06d", serial % 1000000),
   }
   return (templates[tonumber(lines:sub(at + 10, at + 10))]:gsub("<(%u)>", values))
end

function init(args)
   for template in read(args[1]):gmatch("(%Z+)%z") do templates[#templates + 1] = template end
   lines = read(args[2])
   subscribers, base, second = tonumber(args[3]), tonumber(args[4]), args[5]
   first, step = tonumber(args[6]), tonumber(args[7])
   for place = 0, tonumber(args[8]) - 1 do prepared[place] = build(place) end
   local pause = tonumber(args[9])
   if pause > 0 then
      function delay() return pause end
   end
end

function request()
   local text = prepared[posted] or build(posted)
   posted = posted + 1
   return text
end

function done(summary, latency)
   local errors = summary.errors
   io.write(string.format(
      '\n{"answered": %d, "seconds": %.6f, "p50": %.3f, "p99": %.3f, "errors": %d}\n',
      summary.requests, summary.duration / 1e6,
      latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
      errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
